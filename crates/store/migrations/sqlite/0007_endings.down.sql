-- Forgets which yes has ended with its policy, and how time went on.
DROP TABLE clocks;
DROP TRIGGER standing_uses_are_covered;
DROP TABLE standing_ends;

CREATE TRIGGER standing_uses_are_covered BEFORE INSERT ON standing_uses
WHEN NOT EXISTS (
    SELECT 1 FROM standing s
    JOIN approvals a ON a.id = s.approval
    JOIN calls asked ON asked.id = a.call
    JOIN operators o ON o.name = s.granted_by
    JOIN calls c ON c.id = NEW.call
    LEFT JOIN call_keys k ON k.call = c.id
    LEFT JOIN call_keys first ON first.call = asked.id
    WHERE s.approval = NEW.approval AND NEW.used_at < s.expires_at AND o.revoked_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.approval = s.approval)
        AND c.status = 'running' AND c.agent = asked.agent AND c.tool = asked.tool
        AND c.contract = asked.contract AND c.policy = asked.policy
        AND (s.scope = 'type' OR k.same_arguments = first.same_arguments)
        AND (s.scope <> 'task' OR c.task = asked.task)
)
BEGIN SELECT RAISE(ABORT, 'this yes does not cover the call'); END;
