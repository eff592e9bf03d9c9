-- How late alarms rang, added up by tenant, hour and an upper bound in microseconds. The ledger does not say it.
CREATE TABLE betimes.alarm_lag (
    tenant text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    bound bigint NOT NULL,
    count bigint NOT NULL,
    most bigint NOT NULL,
    PRIMARY KEY (tenant, at, bound)
) WITH (fillfactor = 50);

-- Forgetting hours of all tenants, and nothing else.
CREATE INDEX alarm_lag_age ON betimes.alarm_lag ((at + 0));

-- Whoever may use the ledger may use it.
DO $$
DECLARE
    role regrole;
BEGIN
    FOR role IN
        SELECT DISTINCT granted.grantee::regrole
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) granted
        WHERE c.oid = 'betimes.ledger'::regclass AND granted.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON betimes.alarm_lag TO %s', role);
    END LOOP;
END
$$;
