"""The application: configuration, virtual time, the blocking facade, fixtures for users."""
