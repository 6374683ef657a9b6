//! The page about the configuration has every key, with what it takes, what it means, and an example that loads.
//!
//! The table is made from the tree that is read. To write it anew: `TOOLGATE_WRITE_DOCS=1 cargo test documented`.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::load;
use crate::config::file::File;
use crate::config::schema::camel_case;

const PAGE: &str = include_str!("../../../../../docs/reference/config.md");
const BEGIN: &str = "<!-- keys: written by a test -->\n";
const END: &str = "<!-- end of keys -->\n";

/// Examples of keys whose kind of value says too little, or that make sense beside others only.
const EXAMPLES: &[(&str, &str)] = &[
    ("agents", "agents: {coder: {level: standard}}"),
    ("agents.NAME.allowed_tools", "agents: {coder: {allowed_tools: [mcp_files_*]}}"),
    ("agents.NAME.denied_tools", "agents: {coder: {denied_tools: [shell]}}"),
    ("agents.NAME.auto_approve", "agents: {coder: {auto_approve: [exec:mutate]}}"),
    ("agents.NAME.human_approval", "agents: {coder: {human_approval: [vcs]}}"),
    ("agents.NAME.overrides.categories", "agents: {coder: {overrides: {categories: [file_system, web]}}}"),
    ("agents.NAME.overrides.description", "agents: {coder: {overrides: {description: for reviews}}}"),
    (
        "agents.NAME.overrides.requires_approval",
        "agents: {coder: {overrides: {requires_approval: [database_write]}}}",
    ),
    ("agents.NAME.denied_actions", "agents: {coder: {denied_actions: [exec:networked, web:write]}}"),
    ("agents.NAME.preset", "agents: {alice: {preset: coder}}"),
    ("agents.NAME.role", "roles: {tester: {tools: [fs.*, shell]}}\nagents: {alice: {role: tester}}"),
    ("agents.NAME.seniority", "agents: {alice: {preset: coder, seniority: junior}}"),
    ("roles", "roles: {tester: {categories: [file_system], tools: [shell]}}"),
    ("roles.NAME.categories", "roles: {tester: {categories: [file_system, git]}}"),
    ("roles.NAME.tools", "roles: {tester: {tools: [shell, git.*]}}"),
    ("roles.NAME.denied_tools", "roles: {tester: {categories: [git], denied_tools: [git.push]}}"),
    ("roles.NAME.description", "roles: {tester: {description: runs the tests, tools: [shell]}}"),
    ("agents.NAME.elicitation", "agents: {coder: {elicitation: me}}"),
    ("agents.NAME.workspace", "agents: {coder: {workspace: /work/project}}"),
    ("actions", "actions: [payments:refund]"),
    ("mcp.servers", "mcp: {servers: {files: {command: [files-server]}}}"),
    ("mcp.servers.NAME.command", "mcp: {servers: {files: {command: [node, /opt/files/index.js]}}}"),
    ("mcp.servers.NAME.url", "mcp: {servers: {files: {url: \"https://mcp.example.com/mcp\"}}}"),
    (
        "mcp.servers.NAME.auth",
        "mcp: {servers: {docs: {url: \"https://mcp.example.com/mcp\", auth: {bearer: \"env:DOCS_AT\"}}}}",
    ),
    (
        "mcp.servers.NAME.tools",
        "mcp: {servers: {files: {command: [files-server], tools: {disable: [write_file]}}}}",
    ),
    (
        "mcp.servers.NAME.auth.bearer",
        "mcp: {servers: {files: {url: \"https://mcp.example.com/mcp\", auth: {bearer: \"env:FILES_AT\"}}}}",
    ),
    (
        "mcp.servers.NAME.auth.oauth",
        "mcp: {servers: {docs: {url: \"https://mcp.example.com/mcp\", auth: {oauth: {}}}}}",
    ),
    (
        "mcp.servers.NAME.auth.oauth.grant",
        "mcp: {servers: {docs: {url: \"https://mcp.example.com/mcp\", auth: {oauth: {grant: client_credentials, client_id: gate, client_secret: \"env:GATE_AT\", issuer: \"https://id.example.com\"}}}}}",
    ),
    (
        "mcp.servers.NAME.auth.oauth.client_id",
        "mcp: {servers: {docs: {url: \"https://mcp.example.com/mcp\", auth: {oauth: {client_id: gate}}}}}",
    ),
    (
        "mcp.servers.NAME.auth.oauth.client_secret",
        "mcp: {servers: {docs: {url: \"https://mcp.example.com/mcp\", auth: {oauth: {client_id: gate, client_secret: \"env:GATE_AT\", issuer: \"https://id.example.com\"}}}}}",
    ),
    (
        "mcp.servers.NAME.auth.oauth.private_key",
        "mcp: {servers: {docs: {url: \"https://mcp.example.com/mcp\", auth: {oauth: {client_id: gate, private_key: \"file:/run/secrets/gate.pem\", issuer: \"https://id.example.com\"}}}}}",
    ),
    (
        "mcp.servers.NAME.auth.oauth.client_metadata",
        "mcp: {servers: {docs: {url: \"https://mcp.example.com/mcp\", auth: {oauth: {client_metadata: \"https://example.com/toolgate.json\"}}}}}",
    ),
    (
        "mcp.servers.NAME.auth.oauth.scopes",
        "mcp: {servers: {docs: {url: \"https://mcp.example.com/mcp\", auth: {oauth: {scopes: [read]}}}}}",
    ),
    (
        "mcp.servers.NAME.auth.oauth.issuer",
        "mcp: {servers: {docs: {url: \"https://mcp.example.com/mcp\", auth: {oauth: {issuer: \"https://id.example.com\"}}}}}",
    ),
    (
        "mcp.servers.NAME.auth.oauth.redirect_port",
        "mcp: {servers: {docs: {url: \"https://mcp.example.com/mcp\", auth: {oauth: {redirect_port: 8765}}}}}",
    ),
    ("mcp.oauth", "mcp: {oauth: {issuer: \"https://id.example.com\", agents: {default: {client_id: c1}}}}"),
    (
        "mcp.oauth.issuer",
        "mcp: {oauth: {issuer: \"https://id.example.com\", agents: {default: {client_id: c1}}}}",
    ),
    (
        "mcp.oauth.audience",
        "mcp: {oauth: {audience: \"https://gate.example.com/mcp\", issuer: \"https://id.example.com\", agents: {default: {client_id: c1}}}}",
    ),
    (
        "mcp.oauth.jwks_uri",
        "mcp: {oauth: {jwks_uri: \"https://id.example.com/keys\", issuer: \"https://id.example.com\", agents: {default: {client_id: c1}}}}",
    ),
    (
        "mcp.oauth.scopes",
        "mcp: {oauth: {scopes: [toolgate], issuer: \"https://id.example.com\", agents: {default: {client_id: c1}}}}",
    ),
    (
        "mcp.oauth.agents",
        "mcp: {oauth: {issuer: \"https://id.example.com\", agents: {default: {client_id: c1}}}}",
    ),
    ("mcp.servers.NAME.env", "mcp: {servers: {files: {command: [files-server], env: {MODE: quiet}}}}"),
    (
        "mcp.servers.NAME.allow",
        "mcp: {servers: {files: {command: [files-server], allow: [\"example.com:443\"]}}}",
    ),
    ("mcp.servers.NAME.ro", "mcp: {servers: {files: {command: [files-server], ro: [/opt/files]}}}"),
    ("mcp.servers.NAME.rw", "mcp: {servers: {files: {command: [files-server], rw: [/var/lib/files]}}}"),
    ("mcp.servers.NAME.workspace", "mcp: {servers: {files: {command: [files-server], workspace: read}}}"),
    (
        "mcp.servers.NAME.tools.enable",
        "mcp: {servers: {files: {command: [files-server], tools: {enable: [read_file]}}}}",
    ),
    (
        "mcp.servers.NAME.tools.disable",
        "mcp: {servers: {files: {command: [files-server], tools: {disable: [write_file]}}}}",
    ),
    ("mcp.servers.NAME.timeout_ms", "mcp: {servers: {files: {command: [files-server], timeout_ms: 60000}}}"),
    ("mcp.servers.NAME.prefix", "mcp: {servers: {files: {command: [files-server], prefix: auto}}}"),
    ("mcp.servers.NAME.agents", "mcp: {servers: {files: {command: [files-server], agents: [default]}}}"),
    ("mcp.servers.NAME.pass_on", "mcp: {servers: {files: {command: [files-server], pass_on: [resources]}}}"),
    (
        "mcp.servers.NAME.revision",
        "mcp: {servers: {files: {command: [files-server], revision: \"2026-07-28\"}}}",
    ),
    ("tools.disclosure.l1_token_budget", "tools: {disclosure: {l1_token_budget: 2000}}"),
    ("tools.disclosure.l2_token_budget", "tools: {disclosure: {l2_token_budget: 8000}}"),
    ("tools.disclosure.context_window_tokens", "tools: {disclosure: {context_window_tokens: 128000}}"),
    ("approval.rules", "approval: {rules: [{tool: shell, action: prompt}]}"),
    ("approval.rules[].tool", "approval: {rules: [{tool: fs.*, action: approve}]}"),
    ("approval.rules[].action", "approval: {rules: [{tool: fs.delete, action: deny}]}"),
    ("approval.rules[].budget_limit", "approval: {rules: [{tool: shell, action: budget, budget_limit: 20}]}"),
    (
        "approval.rules[].budget_period",
        "approval: {rules: [{tool: shell, action: budget, budget_limit: 20, budget_period: weekly}]}",
    ),
    ("prices", "prices: {currency: USD, tools: {web.*: {call: 0.01}}}"),
    ("prices.currency", "prices: {currency: EUR}"),
    ("prices.tools", "prices: {currency: USD, tools: {shell: {wall_second: 0.0002}}}"),
    ("prices.tools.NAME.call", "prices: {currency: USD, tools: {shell: {call: 0.01}}}"),
    ("prices.tools.NAME.wall_second", "prices: {currency: USD, tools: {shell: {wall_second: 0.0002}}}"),
    ("prices.tools.NAME.cpu_second", "prices: {currency: USD, tools: {shell: {cpu_second: 0.0005}}}"),
    ("prices.tools.NAME.gigabyte_out", "prices: {currency: USD, tools: {shell: {gigabyte_out: 0.09}}}"),
    ("budgets", "budgets: [{tools: shell, calls: 100, period: daily}]"),
    ("budgets[].tools", "budgets: [{tools: fs.*, calls: 100, period: daily}]"),
    ("budgets[].agent", "budgets: [{agent: default, calls: 100, period: daily}]"),
    ("budgets[].task", "budgets: [{task: nightly, calls: 100, period: daily}]"),
    ("budgets[].per", "budgets: [{per: agent, calls: 100, period: daily}]"),
    (
        "budgets[].limit",
        "{prices: {currency: USD, tools: {shell: {call: 0.01}}}, budgets: [{limit: 5, period: weekly}]}",
    ),
    ("budgets[].calls", "budgets: [{calls: 1000, period: weekly}]"),
    ("budgets[].period", "budgets: [{calls: 1000, period: monthly}]"),
    ("budgets[].over", "budgets: [{calls: 100, period: daily, over: ask}]"),
    ("approval.notify", "approval: {notify: [{name: ops, slack: \"env:SLACK_WEBHOOK_URL\"}]}"),
    ("approval.notify[].name", "approval: {notify: [{name: ops, slack: \"env:SLACK_WEBHOOK_URL\"}]}"),
    ("approval.notify[].slack", "approval: {notify: [{name: ops, slack: \"file:/etc/toolgate/slack-url\"}]}"),
    (
        "approval.notify[].webhook",
        "approval: {notify: [{name: ops, webhook: {url: \"https://desk.example.com/x\", secret: \"env:DESK_SECRET\"}}]}",
    ),
    (
        "approval.notify[].webhook.url",
        "approval: {notify: [{name: ops, webhook: {url: \"https://desk.example.com/x\", secret: \"env:DESK_SECRET\"}}]}",
    ),
    (
        "approval.notify[].webhook.secret",
        "approval: {notify: [{name: ops, webhook: {url: \"https://desk.example.com/x\", secret: \"env:DESK_SECRET\"}}]}",
    ),
    (
        "approval.notify[].email",
        "approval: {notify: [{name: ops, email: {server: \"mail.example.com:587\", from: gate@example.com, to: [ops@example.com]}}]}",
    ),
    (
        "approval.notify[].email.server",
        "approval: {notify: [{name: ops, email: {server: \"mail.example.com:587\", from: gate@example.com, to: [ops@example.com]}}]}",
    ),
    (
        "approval.notify[].email.from",
        "approval: {notify: [{name: ops, email: {server: \"mail.example.com:587\", from: gate@example.com, to: [ops@example.com]}}]}",
    ),
    (
        "approval.notify[].email.to",
        "approval: {notify: [{name: ops, email: {server: \"mail.example.com:587\", from: gate@example.com, to: [ops@example.com]}}]}",
    ),
    (
        "approval.notify[].email.tls",
        "approval: {notify: [{name: ops, email: {server: \"mail.example.com:587\", from: gate@example.com, to: [ops@example.com], tls: implicit}}]}",
    ),
    (
        "approval.notify[].email.user",
        "approval: {notify: [{name: ops, email: {server: \"mail.example.com:587\", from: gate@example.com, to: [ops@example.com], user: gate, password: \"file:/etc/toolgate/mail\"}}]}",
    ),
    (
        "approval.notify[].email.password",
        "approval: {notify: [{name: ops, email: {server: \"mail.example.com:587\", from: gate@example.com, to: [ops@example.com], user: gate, password: \"file:/etc/toolgate/mail\"}}]}",
    ),
    (
        "approval.notify[].from_step",
        "approval: {notify: [{name: ops, from_step: 1, slack: \"env:SLACK_WEBHOOK_URL\"}]}",
    ),
    (
        "approval.notify[].every_seconds",
        "approval: {notify: [{name: ops, every_seconds: 300, slack: \"env:SLACK_WEBHOOK_URL\"}]}",
    ),
    (
        "approval.chat.slack",
        "approval: {chat: {slack: {signing_secret: \"env:SLACK_SIGNING\", team: T012AB3CD, users: {U012AB3CD: alice}}}}",
    ),
    (
        "approval.chat.slack.signing_secret",
        "approval: {chat: {slack: {signing_secret: \"env:SLACK_SIGNING\", team: T012AB3CD, users: {U012AB3CD: alice}}}}",
    ),
    (
        "approval.chat.slack.team",
        "approval: {chat: {slack: {signing_secret: \"env:SLACK_SIGNING\", team: T012AB3CD, users: {U012AB3CD: alice}}}}",
    ),
    (
        "approval.chat.slack.users",
        "approval: {chat: {slack: {signing_secret: \"env:SLACK_SIGNING\", team: T012AB3CD, users: {U012AB3CD: alice}}}}",
    ),
    (
        "approval.chat.webhook",
        "approval: {chat: {webhook: {secret: \"env:CHAT_SECRET\", users: {alice@example.com: alice}}}}",
    ),
    (
        "approval.chat.webhook.secret",
        "approval: {chat: {webhook: {secret: \"env:CHAT_SECRET\", users: {alice@example.com: alice}}}}",
    ),
    (
        "approval.chat.webhook.users",
        "approval: {chat: {webhook: {secret: \"env:CHAT_SECRET\", users: {alice@example.com: alice}}}}",
    ),
    ("approval.link", "approval: {link: \"https://gate.example.com/\"}"),
    ("metrics.token", "metrics: {token: \"file:/etc/toolgate/scrape-token\"}"),
    ("telemetry", "telemetry: {endpoint: \"https://collector.example.com:4318\"}"),
    ("telemetry.endpoint", "telemetry: {endpoint: \"https://collector.example.com:4318\"}"),
    (
        "telemetry.header",
        "telemetry: {endpoint: \"https://collector.example.com:4318\", header: authorization, header_from: \"env:OTLP_AUTH\"}",
    ),
    (
        "telemetry.header_from",
        "telemetry: {endpoint: \"https://collector.example.com:4318\", header: authorization, header_from: \"env:OTLP_AUTH\"}",
    ),
    ("telemetry.traces", "telemetry: {endpoint: \"https://collector.example.com:4318\", traces: false}"),
    ("telemetry.metrics", "telemetry: {endpoint: \"https://collector.example.com:4318\", metrics: false}"),
    ("telemetry.logs", "telemetry: {endpoint: \"https://collector.example.com:4318\", logs: false}"),
    (
        "telemetry.every_seconds",
        "telemetry: {endpoint: \"https://collector.example.com:4318\", every_seconds: 60}",
    ),
    ("approval.escalation[].after_seconds", "approval: {escalation: [{after_seconds: 60, to: [lead]}]}"),
    ("approval.escalation[].to", "approval: {escalation: [{after_seconds: 180, to: [lead, boss]}]}"),
    (
        "approval.rules[].amount",
        "approval: {rules: [{tool: pay, action: prompt, amount: {argument: amount, over: 10}}]}",
    ),
    (
        "approval.rules[].amount.argument",
        "approval: {rules: [{tool: pay, action: deny, amount: {argument: total, over: 1000}}]}",
    ),
    (
        "approval.rules[].amount.over",
        "approval: {rules: [{tool: pay, action: deny, amount: {argument: amount, over: 1000}}]}",
    ),
    (
        "approval.rules[].amount.up_to",
        "approval: {rules: [{tool: pay, action: approve, amount: {argument: amount, up_to: 10}}]}",
    ),
    (
        "approval.rules[].arguments",
        "approval: {rules: [{tool: shell, action: prompt, arguments: {command: make}}]}",
    ),
    ("approval.rules[].quorum", "approval: {rules: [{tool: fs.delete, action: prompt, quorum: 2}]}"),
    (
        "policy.rules",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");'}]}",
    ),
    (
        "policy.rules[].cedar",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");'}]}",
    ),
    (
        "policy.rules[].id",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");', id: no-delete}]}",
    ),
    (
        "policy.rules[].examples",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");', examples: [{tool: fs.delete, arguments: {path: a}, expect: forbid}]}]}",
    ),
    (
        "policy.rules[].examples[].tool",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");', examples: [{tool: fs.read, arguments: {path: a}, expect: nothing}]}]}",
    ),
    (
        "policy.rules[].examples[].arguments",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");', examples: [{tool: fs.delete, arguments: {path: b}, expect: forbid}]}]}",
    ),
    (
        "policy.rules[].examples[].expect",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");', examples: [{tool: fs.stat, arguments: {path: a}, expect: nothing}]}]}",
    ),
    (
        "policy.rules[].examples[].task",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource) when { context has task && context.task == \"nightly\" };', examples: [{tool: fs.read, arguments: {path: a}, task: nightly, expect: forbid}]}]}",
    ),
    (
        "policy.rules[].examples[].at",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource) when { context.weekday == \"sunday\" };', examples: [{tool: fs.read, arguments: {path: a}, at: \"2026-02-01T09:30:00Z\", expect: forbid}]}]}",
    ),
    (
        "policy.rules[].examples[].spent",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource) when { context.spend.day.greaterThan(decimal(\"5.0\")) };', examples: [{tool: fs.read, arguments: {path: a}, spent: 7.5, expect: forbid}]}]}",
    ),
    (
        "policy.rules[].examples[].agent",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");', examples: [{agent: {level: elevated}, tool: fs.delete, arguments: {path: a}, expect: forbid}]}]}",
    ),
    (
        "policy.rules[].examples[].agent.name",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");', examples: [{agent: {name: coder}, tool: fs.delete, arguments: {path: a}, expect: forbid}]}]}",
    ),
    (
        "policy.rules[].examples[].agent.level",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");', examples: [{agent: {level: restricted}, tool: fs.delete, arguments: {path: a}, expect: forbid}]}]}",
    ),
    (
        "policy.rules[].examples[].agent.autonomy",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\");', examples: [{agent: {autonomy: full}, tool: fs.delete, arguments: {path: a}, expect: forbid}]}]}",
    ),
    (
        "policy.rules[].examples[].agent.role",
        "roles: {tester: {categories: [file_system]}}\npolicy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\") when { principal.role == \"tester\" };', examples: [{agent: {role: tester}, tool: fs.delete, arguments: {path: a}, expect: forbid}]}]}",
    ),
    (
        "policy.rules[].examples[].agent.seniority",
        "policy: {rules: [{cedar: 'forbid(principal, action, resource == Tool::\"fs.delete\") when { principal.seniority == \"junior\" };', examples: [{agent: {seniority: junior}, tool: fs.delete, arguments: {path: a}, expect: forbid}]}]}",
    ),
    ("policy.agent_rate_limit", "policy: {agent_rate_limit: {max_calls: 600, window_ms: 60000}}"),
    ("policy.agent_rate_limit.max_calls", "policy: {agent_rate_limit: {max_calls: 600, window_ms: 60000}}"),
    ("policy.agent_rate_limit.window_ms", "policy: {agent_rate_limit: {max_calls: 20, window_ms: 1000}}"),
    ("policy.refused_rate_limit", "policy: {refused_rate_limit: {max_calls: 100, window_ms: 60000}}"),
    ("policy.resource_limits", "policy: {resource_limits: {shell: {memory: 512m}}}"),
    ("policy.resource_limits.NAME.duration_ms", "policy: {resource_limits: {fs.*: {duration_ms: 5000}}}"),
    ("policy.resource_limits.NAME.memory", "policy: {resource_limits: {shell: {memory: 512m}}}"),
    ("policy.resource_limits.NAME.cpu", "policy: {resource_limits: {shell: {cpu: \"1.5\"}}}"),
    ("policy.resource_limits.NAME.processes", "policy: {resource_limits: {shell: {processes: 64}}}"),
    ("policy.resource_limits.NAME.disk", "policy: {resource_limits: {shell: {disk: 1g}}}"),
    ("policy.resource_limits.NAME.output", "policy: {resource_limits: {shell: {output: 1m}}}"),
    ("policy.max_arguments", "policy: {max_arguments: 1m}"),
    ("policy.shadow", "policy: {shadow: next.yaml}"),
    ("tools.filesystem.hidden_names", "tools: {filesystem: {hidden_names: [\"*.sqlite\"]}}"),
    ("tools.filesystem.protected_names", "tools: {filesystem: {protected_names: [Makefile]}}"),
    ("policy.rate_limits", "policy: {rate_limits: {shell: {max_calls: 30, window_ms: 60000}}}"),
    ("hooks", "hooks: [{name: no-prod, command: /usr/bin/false}]"),
    ("hooks[].name", "hooks: [{name: no-prod, command: /usr/bin/false}]"),
    ("hooks[].command", "hooks: [{name: no-prod, command: /usr/bin/false}]"),
    ("hooks[].args", "hooks: [{name: no-prod, command: /usr/bin/env, args: [\"false\"]}]"),
    ("hooks[].when", "hooks: [{name: no-prod, command: /usr/bin/false, when: both}]"),
    ("hooks[].tools", "hooks: [{name: no-prod, command: /usr/bin/false, tools: [shell, fs.*]}]"),
    ("hooks[].timeout_ms", "hooks: [{name: no-prod, command: /usr/bin/false, timeout_ms: 500}]"),
    ("egress.allow", "egress: {allow: [example.com:443, preset:python]}"),
    ("egress.block", "egress: {block: [\"*.ads.example\"]}"),
    ("egress.ports", "egress: {ports: [443]}"),
    ("egress.private", "egress: {private: [10.1.0.0/16, db.internal]}"),
    ("egress.nameservers", "egress: {nameservers: [192.0.2.53]}"),
    ("egress.extra_roots", "egress: {extra_roots: /etc/ssl/own.pem}"),
    ("egress.overrides", "egress: {overrides: {terminal: [preset:rust]}}"),
    (
        "egress.credentials",
        "egress: {credentials: [{host: api.example.com, from: \"env:API_TOKEN\", bearer: true}]}",
    ),
    (
        "egress.credentials[].host",
        "egress: {credentials: [{host: \"api.example.com:8443\", from: \"env:API_TOKEN\", bearer: true}]}",
    ),
    (
        "egress.credentials[].from",
        "egress: {credentials: [{host: api.example.com, from: \"file:/run/secrets/api\", bearer: true}]}",
    ),
    (
        "egress.credentials[].header",
        "egress: {credentials: [{host: api.example.com, from: \"env:API_TOKEN\", header: x-api-key}]}",
    ),
    (
        "egress.credentials[].bearer",
        "egress: {credentials: [{host: api.example.com, from: \"env:API_TOKEN\", bearer: true}]}",
    ),
    (
        "egress.credentials[].basic",
        "egress: {credentials: [{host: api.example.com, from: \"keyring:api\", basic: robot}]}",
    ),
    (
        "egress.credentials[].query",
        "egress: {credentials: [{host: api.example.com, from: \"env:API_TOKEN\", query: key}]}",
    ),
    (
        "egress.credentials[].body",
        "egress: {credentials: [{host: api.example.com, from: \"env:API_TOKEN\", body: API_TOKEN_HERE}]}",
    ),
    (
        "egress.credentials[].sigv4",
        "egress: {credentials: [{host: \"*.amazonaws.com\", from: \"env:AWS_SECRET\", sigv4: {access_key: AKIA, region: eu-central-1, service: s3}}]}",
    ),
    (
        "egress.credentials[].sigv4.access_key",
        "egress: {credentials: [{host: s3.example.com, from: \"env:AWS_SECRET\", sigv4: {access_key: AKIA, region: eu-central-1, service: s3}}]}",
    ),
    (
        "egress.credentials[].sigv4.region",
        "egress: {credentials: [{host: s3.example.com, from: \"env:AWS_SECRET\", sigv4: {access_key: AKIA, region: us-east-1, service: s3}}]}",
    ),
    (
        "egress.credentials[].sigv4.service",
        "egress: {credentials: [{host: sqs.example.com, from: \"env:AWS_SECRET\", sigv4: {access_key: AKIA, region: us-east-1, service: sqs}}]}",
    ),
    (
        "egress.credentials[].ssh_key",
        "egress: {credentials: [{host: git.example.com, from: \"file:/run/secrets/deploy_key\", ssh_key: true}]}",
    ),
    (
        "egress.known_hosts",
        "egress: {known_hosts: [\"git.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMxJCfKuA55wGp+li2CF+ZfUkTiiA0qAPvum6C3J+6k0\"]}",
    ),
    ("egress.known_hosts_file", "egress: {known_hosts_file: /etc/ssh/ssh_known_hosts}"),
    (
        "egress.vault",
        "egress: {vault: {address: \"https://vault.example.com:8200\", token: \"env:VAULT_TOKEN\"}}",
    ),
    (
        "egress.vault.address",
        "egress: {vault: {address: \"https://vault.example.com\", token: \"env:VAULT_TOKEN\"}}",
    ),
    (
        "egress.vault.token",
        "egress: {vault: {address: \"https://vault.example.com\", token: \"file:/run/secrets/vault\"}}",
    ),
    ("egress.limits.bytes", "egress: {limits: {bytes: 100m}}"),
    ("tools.http.methods", "tools: {http: {methods: [GET, HEAD]}}"),
    ("tools.http.headers.allow", "tools: {http: {headers: {allow: [accept, content-type]}}}"),
    ("tools.http.headers.strip", "tools: {http: {headers: {strip: [cookie]}}}"),
    ("tools.http.headers.add", "tools: {http: {headers: {add: {user-agent: toolgate}}}}"),
    ("tools.http.max_response", "tools: {http: {max_response: 1m}}"),
    (
        "sandboxing.docker.allowed_hosts",
        "sandboxing: {docker: {network: bridge, allowed_hosts: [pypi.org:443]}}",
    ),
    ("store", "store: postgres://toolgate@db.example/toolgate"),
    ("listen", "listen: 127.0.0.1:7433"),
    ("tls", "tls: {certificate: gate.pem, key: gate.key, names: [gate.example.com]}"),
    ("tls.certificate", "tls: {certificate: /etc/toolgate/gate.pem, key: /etc/toolgate/gate.key}"),
    ("tls.key", "tls: {certificate: /etc/toolgate/gate.pem, key: /etc/toolgate/gate.key}"),
    ("tls.names", "tls: {certificate: gate.pem, key: gate.key, names: [gate.example.com]}"),
    ("tools.bash.allowed_commands", "tools: {bash: {allowed_commands: [ls, cat, git]}}"),
    ("tools.bash.denied_commands", "tools: {bash: {denied_commands: [rm]}}"),
    ("tools.bash.allowed_directories", "tools: {bash: {allowed_directories: [/work]}}"),
    ("tools.filesystem.allowed_directories", "tools: {filesystem: {allowed_directories: [/work]}}"),
    ("tools.http.allowed_domains", "tools: {http: {allowed_domains: [example.com, \"*.example.org\"]}}"),
    ("tools.http.blocked_domains", "tools: {http: {blocked_domains: [ads.example.com]}}"),
    ("tools.browser.allowed_domains", "tools: {browser: {allowed_domains: [\"*\"]}}"),
    ("tools.sandbox.image", "tools: {sandbox: {image: \"python:3.13\"}}"),
    ("tools.sandbox.memory_limit", "tools: {sandbox: {memory_limit: 512m}}"),
    ("sandboxing.docker.image", "sandboxing: {docker: {image: \"toolgate/worker:1\"}}"),
    ("sandboxing.docker.memory_limit", "sandboxing: {docker: {memory_limit: 512m}}"),
    ("sandboxing.docker.cpu_limit", "sandboxing: {docker: {cpu_limit: \"1.5\"}}"),
    ("sandboxing.docker.runtime", "sandboxing: {docker: {runtime: runsc}}"),
    ("sandboxing.k8s.namespace", "sandboxing: {k8s: {namespace: agents}}"),
    ("sandboxing.k8s.resource_limits.cpu", "sandboxing: {k8s: {resource_limits: {cpu: 250m}}}"),
    ("sandboxing.k8s.resource_limits.memory", "sandboxing: {k8s: {resource_limits: {memory: 256Mi}}}"),
    (
        "trust.weights",
        "trust: {weights: {task_difficulty: 0.3, completion_rate: 0.25, error_rate: 0.25, human_feedback: 0.2}}",
    ),
    (
        "trust.milestones.standard_to_elevated",
        "trust: {milestones: {standard_to_elevated: {clean_history_days: 14, requires_human_approval: true}}}",
    ),
    (
        "trust.promotion_thresholds.standard_to_elevated",
        "trust: {promotion_thresholds: {standard_to_elevated: {score: 0.8, requires_human_approval: true}}}",
    ),
    ("trust.weights.task_difficulty", "trust: {weights: {task_difficulty: 0.3}}"),
    ("trust.weights.human_feedback", "trust: {weights: {human_feedback: 0.2}}"),
];

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever adds a key has the table written for them")]
fn every_key_is_documented_and_its_example_loads() {
    let table = table();
    if std::env::var_os("TOOLGATE_WRITE_DOCS").is_some() {
        let (before, rest) = PAGE.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/config.md");
        std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    let kept = PAGE.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(table, _)| table);
    assert!(
        kept == Some(&table),
        "docs/reference/config.md is not what the keys are now; `TOOLGATE_WRITE_DOCS=1 cargo test documented` writes it"
    );
}

/// One row for each key.
fn table() -> String {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<File>().to_value();
    let mut walk = Walk {
        schema: &schema,
        seen: BTreeMap::new(),
        rows: String::new(),
        examples: EXAMPLES.iter().copied().collect(),
        problems: Vec::new(),
    };
    walk.rows.push_str("| key | also | takes | default | meaning | example |\n|---|---|---|---|---|---|\n");
    walk.object(&schema, "");
    let problems = walk.problems.join("\n");
    assert!(problems.is_empty(), "these examples do not load; give the keys others in EXAMPLES\n{problems}");
    assert!(walk.examples.is_empty(), "examples of keys that there are not: {:?}", walk.examples);
    walk.rows
}

struct Walk<'a> {
    schema: &'a Value,
    /// Where each part of the tree was described first.
    seen: BTreeMap<String, String>,
    rows: String,
    examples: BTreeMap<&'static str, &'static str>,
    problems: Vec<String>,
}

impl<'a> Walk<'a> {
    fn object(&mut self, object: &'a Value, path: &str) {
        let properties: BTreeMap<_, _> = object["properties"].as_object().into_iter().flatten().collect();
        for (name, property) in properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.key(property, &path);
        }
    }

    fn key(&mut self, property: &'a Value, path: &str) {
        let (kind, of) = self.resolved(property);
        let meaning = property["description"].as_str().or(kind["description"].as_str());
        let meaning = meaning.unwrap_or_else(|| panic!("`{path}` has no description")).replace('\n', " ");
        let inner = [(&kind["additionalProperties"], ".NAME"), (&kind["items"], "[]")];
        let inner = inner.into_iter().find(|(inner, _)| inner.is_object());
        let (takes, below) = match inner {
            Some((inner, step)) => {
                let (inner, of) = self.resolved(inner);
                let many = if step == "[]" { "a list" } else { "names and values" };
                (many.to_owned(), has_keys(inner).then(|| (inner, of, format!("{path}{step}"))))
            }
            None if has_keys(kind) => ("keys".to_owned(), Some((kind, of, path.to_owned()))),
            None => (takes(kind), None),
        };
        let also = other_spellings(property, path);
        let Some((inner, of, below)) = below else { return self.row(path, &also, &takes, &meaning, kind) };
        match of.as_ref().and_then(|of| self.seen.get(of)) {
            Some(first) => {
                let meaning = format!("{meaning} The keys of `{first}`.");
                self.row(path, &also, &takes, &meaning, kind);
            }
            None => {
                self.row(path, &also, &takes, &meaning, kind);
                self.seen.extend(of.map(|of| (of, below.clone())));
                self.object(inner, &below);
            }
        }
    }

    /// What stands behind references, and its name.
    fn resolved(&self, value: &'a Value) -> (&'a Value, Option<String>) {
        match value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
            Some(pointer) => {
                (self.schema.pointer(pointer).unwrap(), pointer.rsplit('/').next().map(str::to_owned))
            }
            None => (value, None),
        }
    }

    fn row(&mut self, path: &str, also: &str, takes: &str, meaning: &str, kind: &Value) {
        let example = match self.examples.remove(path) {
            Some(example) => example.to_owned(),
            None => made_up(path, takes, kind),
        };
        if let Err(problems) = load("toolgate.yaml", example.as_bytes()) {
            self.problems.push(format!("`{path}`: {problems}\n  {example}"));
        }
        let cell = |text: &str| text.replace('|', "\\|");
        let (meaning, default) = meaning_and_default(meaning);
        // On one line, as flow mappings may stand beside each other in JSON's braces but not in YAML's lines.
        let example = example.replace('\n', "` `");
        self.rows.push_str(&format!(
            "| `{path}` | {also} | {} | {} | {} | `{}` |\n",
            cell(takes),
            cell(&default),
            cell(&meaning),
            cell(&example)
        ));
    }
}

/// A description without the sentence that names the default, and that default.
fn meaning_and_default(text: &str) -> (String, String) {
    let Some((meaning, default)) = text.split_once("Default: ") else {
        let default = if text.contains("Must be given") { "must be given" } else { "–" };
        return (text.to_owned(), default.to_owned());
    };
    // A remark that was put behind the description belongs to the meaning.
    let (default, more) = match default.split_once(". The keys of ") {
        Some((default, keys)) => (default, format!("The keys of {keys}")),
        None => (default.trim_end_matches('.'), String::new()),
    };
    (format!("{meaning}{more}").trim_end().to_owned(), default.to_owned())
}

/// What else the last part of a key can be called.
fn other_spellings(property: &Value, path: &str) -> String {
    let name = path.rsplit('.').next().unwrap_or_default();
    let named = property["x-spellings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut all: Vec<String> = named.map(str::to_owned).collect();
    let camel = camel_case(name);
    if camel != name && !all.contains(&camel) {
        all.push(camel);
    }
    all.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn has_keys(kind: &Value) -> bool {
    kind["properties"].is_object()
}

fn takes(kind: &Value) -> String {
    if let Some(words) = kind["enum"].as_array() {
        let words: Vec<String> =
            words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    match kind["type"].as_str() {
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("integer") => "a whole number".to_owned(),
        Some("number") => "a number".to_owned(),
        Some("string") => "text".to_owned(),
        Some("object") => "keys".to_owned(),
        _ => "a number, or keys".to_owned(),
    }
}

/// A configuration with this one key in it.
fn made_up(path: &str, takes: &str, kind: &Value) -> String {
    let value = match (kind["enum"][0].as_str(), takes) {
        (Some(word), _) => word.to_owned(),
        (None, "`true`, `false`") => "true".to_owned(),
        (None, "a whole number") => "60".to_owned(),
        (None, "a number" | "a number, or keys") => "0.25".to_owned(),
        (None, "text") => "text".to_owned(),
        (None, "a list") => "[]".to_owned(),
        (None, _) => "{}".to_owned(),
    };
    // Names are categories where they are not anybody's own.
    let segment = |name: &str| match name {
        "NAME" if path.starts_with("agents") => "coder".to_owned(),
        "NAME" => "web".to_owned(),
        name => name.to_owned(),
    };
    let mut segments = path.split('.').rev().map(segment);
    let last = format!("{}: {value}", segments.next().unwrap_or_default());
    segments.fold(last, |inner, name| format!("{name}: {{{inner}}}"))
}
