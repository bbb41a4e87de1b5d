"""Logs as Megatron-LM and torchtitan print them."""

# Lines of two versions of torchtitan, behind "Building".
MESHES = [
    "2-D device mesh with ['dp_shard', 'tp'], [4, 2]",
    "device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=1, etp=1",
]
ARGUMENTS = {
    "add_bias_linear": False, "bf16": True, "context_parallel_size": 2,
    "expert_model_parallel_size": 1, "ffn_hidden_size": 14336, "fp16": False, "fp8": None,
    "global_batch_size": 128, "group_query_attention": True, "hidden_size": 4096,
    "micro_batch_size": 2, "num_attention_heads": 32, "num_experts": None, "num_layers": 32,
    "num_query_groups": 8, "pipeline_model_parallel_size": 2, "recompute_granularity": "selective",
    "seq_length": 8192, "sequence_parallel": True, "swiglu": True,
    "tensor_model_parallel_size": 4, "untie_embeddings_and_output_weights": True,
    "use_distributed_optimizer": True, "virtual_pipeline_model_parallel_size": None,
    "world_size": 64,
}  # fmt: skip


def megatron(times: list[float], prefix: str = "", batch: int = 128, **changed: object) -> str:
    """Return a log as Megatron-LM prints it."""
    arguments = {**ARGUMENTS, **changed}
    lines = [
        "using world size: 64, data-parallel size: 4, tensor-model-parallel size: 4",
        "------------------------ arguments ------------------------",
        *(f"  {name} {'.' * (48 - len(name))} {value}" for name, value in arguments.items()),
        "-------------------- end of arguments ---------------------",
        "training ...",
    ]
    lines += [
        f" [2025-04-13 23:41:12] iteration {10 * i:8d}/    1000 | consumed samples: {160 * i:12d} "
        f"| elapsed time per iteration (ms): {ms:.1f} | learning rate: 1.0E-04 "
        f"| global batch size: {batch:5d} | lm loss: 7.4E+00 | number of nan iterations:   0 |"
        for i, ms in enumerate(times, 1)
    ]
    return "".join(f"{prefix}{line}\n" for line in lines)


def titan(rates: list[str], mesh: str, *more: str, local: int = 2, batch: int = 16) -> str:
    """Return a log as torchtitan prints it."""
    lines = [
        "Starting job: Llama 3 8B training",
        f"Building {mesh}",
        "Building llama3 8B with ModelArgs(dim=4096, n_layers=32, n_heads=32, n_kv_heads=8, "
        "vocab_size=128256, multiple_of=1024, ffn_dim_multiplier=1.3, norm_eps=1e-05)",
        *more,
        "Applied FSDP to the model",
        f"Training starts at step 1, with local batch size {local}, global batch size {batch}, "
        "sequence length 8192, total steps 100 (warmup 200)",
    ]
    lines += [
        f"\x1b[31mstep: {10 * i:2d}  \x1b[32mloss:  8.3854  \x1b[33mmemory: 49.59GiB(35.46%)  "
        f"\x1b[34mtps: {rate}  \x1b[36mtflops: 333.1  \x1b[35mmfu: 33.70%\x1b[39m"
        for i, rate in enumerate(rates)
    ]
    return "".join(f"[rank0]:2025-02-13 11:33:35,026 - root - INFO - {line}\n" for line in lines)
