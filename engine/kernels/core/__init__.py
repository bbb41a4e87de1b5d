"""What all compiled kernels are made of: queues, pools, numbers for none, state by reference."""
