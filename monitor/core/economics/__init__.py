"""What acceptance and step time are worth: does speculation pay, what a change costs, what to set."""
