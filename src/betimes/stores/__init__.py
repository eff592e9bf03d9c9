"""Store adapters: small, one per database, all behind the contract in `betimes.engine.store`."""
