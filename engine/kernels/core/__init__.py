"""Parts shared by all compiled kernels: queues, free lists, constants, state by reference."""
