"""Who gets in: TLS, passwords, tokens, and limits of what one client can hold."""
