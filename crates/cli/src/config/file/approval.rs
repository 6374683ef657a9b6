//! The keys under `approval`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::at::{At, Given};
use crate::config::word::{PeriodWord, RuleActionWord};

/// Who is asked, and how long a question waits.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Approval {
    /// Rules; the strictest that matches wins. Default: none.
    pub(crate) rules: Given<Vec<At<RuleFile>>>,
    /// How long a caller waits for an answer before it hears that its call waits. Default: 45.
    #[serde(alias = "waitSeconds")]
    pub(crate) wait_seconds: Given<u64>,
    /// How long a question waits for an answer before it counts as a no. Default: 300.
    #[serde(alias = "timeoutSeconds")]
    pub(crate) timeout_seconds: Given<u64>,
    /// The same for calls of one safety class. Default: `timeout_seconds` for all.
    #[serde(alias = "timeoutSecondsByClass")]
    pub(crate) timeout_seconds_by_class: Given<ByClass>,
    /// Whom a question reaches that nobody answers, step by step. Default: nobody.
    pub(crate) escalation: Given<Vec<At<EscalationFile>>>,
    /// How long a yes can be good for more than one call. Default: 28800, which is 8 hours.
    #[serde(alias = "standingMaxSeconds")]
    pub(crate) standing_max_seconds: Given<u64>,
    /// Who is told that a question waits, and how. docs/guide/answering.md says how. Default: nobody.
    pub(crate) notify: Given<Vec<At<NotifyFile>>>,
    /// Chats that bring answers, `/approve ID` and `/deny ID reason`. Default: none.
    pub(crate) chat: Given<ChatFile>,
    /// How people reach the console, for those who are told: `https://gate.example.com/`. Default: where it listens.
    pub(crate) link: Given<String>,
}

/// Somebody who is told that questions wait. Of `webhook`, `slack` and `email` one must be given.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NotifyFile {
    /// What it is called in the ledger: small letters, digits, `-` and `_`, 32 at most. Must be given.
    pub(crate) name: Given<String>,
    /// Signed JSON to this place, `https://host.example/path`.
    pub(crate) webhook: Given<WebhookFile>,
    /// A message to a Slack-compatible incoming webhook: where its URL, which is a secret, is to be had: `env:NAME`,
    /// `file:PATH`, `vault:PATH#FIELD` or `keyring:NAME`.
    pub(crate) slack: Given<String>,
    /// A mail.
    pub(crate) email: Given<EmailFile>,
    /// From which step of `escalation` on it is told; 0 is at once. Default: 0.
    #[serde(alias = "fromStep")]
    pub(crate) from_step: Given<u64>,
    /// How long after one message the next comes at the soonest; what comes between is told together. Default: 60.
    #[serde(alias = "everySeconds")]
    pub(crate) every_seconds: Given<u64>,
}

/// A place that takes signed JSON.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebhookFile {
    /// Where. `http://` only to a host that `egress.private` lists. Must be given.
    pub(crate) url: Given<String>,
    /// Where the secret is to be had that it is signed with. Must be given.
    pub(crate) secret: Given<String>,
}

/// Mail, by SMTP.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EmailFile {
    /// Which server takes it: `mail.example.com:587`. Must be given.
    pub(crate) server: Given<String>,
    /// When TLS begins: `starttls`, `implicit`, or `never`, which only a host has that `egress.private` lists. Default:
    /// `starttls`.
    pub(crate) tls: Given<String>,
    /// From whom: `gate@example.com`. Must be given.
    pub(crate) from: Given<String>,
    /// To whom. Must be given.
    pub(crate) to: Given<Vec<At<String>>>,
    /// As whom the server is spoken to. Default: as nobody.
    pub(crate) user: Given<String>,
    /// Where the password is to be had.
    pub(crate) password: Given<String>,
}

/// Chats that bring answers.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChatFile {
    /// Slash commands of Slack, or of what signs as it does, at `/v1/chat/slack`.
    pub(crate) slack: Given<SlackChatFile>,
    /// Any other chat, by signed JSON at `/v1/chat/webhook`.
    pub(crate) webhook: Given<WebhookChatFile>,
}

/// Slash commands of Slack.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SlackChatFile {
    /// Where the signing secret of the app is to be had. Must be given.
    #[serde(alias = "signingSecret")]
    pub(crate) signing_secret: Given<String>,
    /// The id of the team, such as `T012AB3CD`: an app may be in several. Must be given.
    pub(crate) team: Given<String>,
    /// Which operator a user is, by the user's id: `U012AB3CD: alice`. Whoever is not here decides nothing.
    pub(crate) users: Given<BTreeMap<At<String>, At<String>>>,
}

/// Any other chat.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebhookChatFile {
    /// Where the secret is to be had that it signs with. Must be given.
    pub(crate) secret: Given<String>,
    /// Which operator a user is. Whoever is not here decides nothing.
    pub(crate) users: Given<BTreeMap<At<String>, At<String>>>,
}

/// Seconds, by the safety class of a call.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ByClass {
    /// It looks, and changes nothing.
    pub(crate) read: Given<u64>,
    /// It changes something.
    pub(crate) write: Given<u64>,
    /// It talks to others.
    pub(crate) network: Given<u64>,
    /// It spends money.
    pub(crate) financial: Given<u64>,
    /// It can change what guards everything else.
    pub(crate) privileged: Given<u64>,
}

/// One step of the way that an unanswered question takes.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EscalationFile {
    /// How long after it was asked. Must be given, and grow from step to step.
    #[serde(alias = "afterSeconds")]
    pub(crate) after_seconds: Given<u64>,
    /// To which operators. Must be given.
    pub(crate) to: Given<Vec<At<String>>>,
}

/// One rule about who is asked.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RuleFile {
    /// About which tools: `shell`, `fs.*`. Must be given.
    #[serde(alias = "toolName", alias = "tool_name")]
    #[schemars(extend("x-spellings" = ["toolName", "tool_name"]))]
    pub(crate) tool: Given<String>,
    /// What it says. Must be given. `budget` says what `approve` does until its limit is spent, and then what `prompt` does; it
    /// asks about whatever only `prompt` would fit.
    pub(crate) action: Given<RuleActionWord>,
    /// About which of their calls: what an argument has to be, by its name or `outer.inner`. In a text `*` stands for any
    /// text. Paths and programs are meant, not their spelling: `infra/*` is also `./infra//x` and, where all that is beneath
    /// is meant, `infra`; `git` is also `/usr/bin/git`, `env git` and each stage of a pipeline. What is missing, of another
    /// kind, or cannot be told (`..`, a text for a shell, code, an option or a variable that may start anything) counts as a match for `prompt` and `deny`, and as none for
    /// `approve`, which must fit every program that is started. Default: all calls.
    pub(crate) arguments: Given<BTreeMap<At<String>, PatternFile>>,
    /// About which amounts. One that is missing, misspelt, nested elsewhere, negative or not a plain number counts as
    /// too much. So does one beside which something else says how much, or of what: `fee`, `units`, `currency`; unless
    /// `arguments` has that one's very value, such as `currency: EUR`. Default: all.
    pub(crate) amount: Given<AmountFile>,
    /// For `prompt`: how many different people must approve. It can only ask for more than the class of a call does.
    /// Default: 1.
    pub(crate) quorum: Given<u64>,
    /// For `budget`: how much is free in a period, for all agents together; calls, where there is no amount.
    #[serde(alias = "budgetLimit")]
    pub(crate) budget_limit: Given<f64>,
    /// For `budget`: how often it begins anew: each day, each Monday, or on the first of each month, at midnight UTC.
    /// Default: `daily`.
    #[serde(alias = "budgetPeriod")]
    pub(crate) budget_period: Given<PeriodWord>,
}

/// Which amounts a rule is about.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AmountFile {
    /// The argument that holds the amount: `amount`, or `payment.amount`. Must be given.
    pub(crate) argument: Given<String>,
    /// For `prompt` and `deny`: amounts that are larger. A `budget` counts amounts, and needs neither this nor `up_to`.
    pub(crate) over: Given<f64>,
    /// For `approve` and `budget`: amounts that are not larger.
    #[serde(alias = "upTo")]
    pub(crate) up_to: Given<f64>,
}

/// What an argument has to be.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum PatternFile {
    Text(String),
    Number(f64),
    Bool(bool),
}

impl<'de> Deserialize<'de> for PatternFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PatternFile, D::Error> {
        deserializer.deserialize_any(PatternVisitor)
    }
}

struct PatternVisitor;

impl Visitor<'_> for PatternVisitor {
    type Value = PatternFile;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text, a number, `true` or `false`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PatternFile, E> {
        Ok(PatternFile::Text(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<PatternFile, E> {
        Ok(PatternFile::Bool(value))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<PatternFile, E> {
        Ok(PatternFile::Number(number as f64))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<PatternFile, E> {
        Ok(PatternFile::Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<PatternFile, E> {
        Ok(PatternFile::Number(number))
    }
}

impl JsonSchema for PatternFile {
    fn schema_name() -> Cow<'static, str> {
        "Pattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}
