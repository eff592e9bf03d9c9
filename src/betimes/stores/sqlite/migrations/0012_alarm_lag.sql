-- How late alarms rang, added up by tenant, hour and an upper bound in microseconds. The ledger does not say it.
CREATE TABLE alarm_lag (
    tenant TEXT NOT NULL,
    at INTEGER NOT NULL,
    bound INTEGER NOT NULL,
    count INTEGER NOT NULL,
    most INTEGER NOT NULL,
    PRIMARY KEY (tenant, at, bound)
) STRICT, WITHOUT ROWID;

-- Forgetting hours of all tenants.
CREATE INDEX alarm_lag_age ON alarm_lag (at);
