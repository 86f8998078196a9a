"""What detectors measure with: trials, scores, their noise, and what is usual by hour, week and traffic."""
