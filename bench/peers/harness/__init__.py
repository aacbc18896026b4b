"""What bench/peers/generate, measure and report are made of."""
