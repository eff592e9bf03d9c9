-- save_policy: Keep a policy; one that is kept already stays as it is.
INSERT INTO policy (fingerprint, body) VALUES (:fingerprint, :body) ON CONFLICT DO NOTHING;

-- policy: The body of a policy.
SELECT body FROM policy WHERE fingerprint = :fingerprint;
