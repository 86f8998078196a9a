"""What acceptance and step time are worth: does it pay, what a change costs, which release is better."""
