"""What crosses a process boundary: events, specs, errors, manifests and the storage layout. Imports only pydantic."""
