-- Alarms of one tenant, whatever the others have waiting: so tenants take turns when much is due. It is short, because
-- every write that moves an alarm pays for it; what is due at one instant stands in the order of its rows.
CREATE INDEX stream_tenant_alarm ON stream (tenant, wake_at) WHERE wake_at IS NOT NULL;
