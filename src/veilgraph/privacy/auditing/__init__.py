"""What an audit is made of: sources of reports, learned guesses, stated probabilities, fresh processes."""
