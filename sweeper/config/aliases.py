"""Names by which other tools know our keys: Megatron-LM, DeepSpeed, Hugging Face, vLLM, Slurm."""

_NAMES = {
    "workload": "model arch architecture",
    "npu": "gpu gpu_type accelerator device chip",
    "cluster": "machine server_type",
    "nodes": "node nnodes num_nodes n_nodes n_node servers hosts",
    "topology": "topo",
    "topology.bandwidth": "bw bandwidths link_bandwidth",
    "topology.latency": "lat latencies link_latency",
    "collective.algorithms": "algo algos algorithm",
    "collective.chunks": "chunk n_chunks num_chunks splits",
    "fidelity": "backend mode",
    "workload.parallel.tensor": "tp tp_size tensor_parallel tensor_parallel_size "
    "tensor_model_parallel_size",
    "workload.parallel.pipeline": "pp pp_size pipeline_parallel pipeline_parallel_size "
    "pipeline_model_parallel_size",
    "workload.parallel.data": "dp dp_size data_parallel data_parallel_size",
    "workload.parallel.expert": "ep ep_size expert_parallel expert_parallel_size "
    "expert_model_parallel_size",
    "workload.parallel.context": "cp cp_size context_parallel context_parallel_size",
    "workload.plan.batch": "bs gbs batch_size global_batch global_batch_size train_batch_size",
    "workload.plan.micro_batch": "mbs microbatch micro_batch_size train_micro_batch_size_per_gpu",
    "workload.plan.micro_batches": "ga gas gradient_accumulation_steps num_microbatches",
    "workload.plan.interleave": "vpp vp virtual_pipeline",
    "workload.plan.precision": "dtype precision data_type",
    "workload.plan.zero": "zero_stage",
    "workload.plan.recompute": "ac recompute_granularity activation_checkpointing",
    "workload.plan.sequence_parallel": "sp",
    "workload.model.sequence": "seq seqlen seq_len seq_length sequence_length context_length "
    "max_position_embeddings",
    "workload.model.layers": "n_layer n_layers num_layers num_hidden_layers",
    "workload.model.hidden": "d_model n_embd hidden_size",
    "workload.model.heads": "n_head n_heads num_heads num_attention_heads",
    "workload.model.kv_heads": "n_kv_heads num_key_value_heads num_query_groups",
    "workload.model.ffn": "d_ff ffn_hidden_size intermediate_size",
    "workload.model.vocabulary": "vocab vocab_size",
    "workload.model.experts": "n_experts num_experts",
    "workload.model.top_k": "topk moe_router_topk num_experts_per_tok",
}
ALIASES = {name: key for key, names in _NAMES.items() for name in names.split()}
