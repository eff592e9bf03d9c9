-- formerly: bb5c4b9c9109878d42a50b74e9acc32c894efc3368c08cc86626ee98af53f42c
-- Tenants take turns when much is due: what each waits for, whatever the others have waiting. The first is short, because
-- every write that moves an alarm pays for it.
CREATE INDEX stream_tenant_wake ON betimes.stream (tenant, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS stream_tenant_due ON betimes.stream (tenant, kind, due_at, id) WHERE due_at IS NOT NULL;
