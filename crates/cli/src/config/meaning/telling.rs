//! Who is told what happens, who brings answers from elsewhere, and where secrets for that are to be had.
//!
//! None of it decides anything: whoever answers has to be an operator who may.

use std::collections::BTreeMap;

use contract::{OperatorName, Private, Target};
use egress::{MailTls, OwnUrl, is_mail_address};
use policy::SecretSource;

use super::Reader;
use crate::config::at::{At, Given};
use crate::config::file::{ChatFile, EmailFile, File, NotifyFile, Telemetry};

/// A day.
const MOST_SECONDS: u64 = 24 * 60 * 60;
/// More channels than anybody looks at.
const MOST_CHANNELS: usize = 16;

/// Who is told what happens, and who brings answers from elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Telling {
    /// Who is told that a question waits.
    pub(crate) channels: Vec<Channel>,
    /// How people reach the console, if that is not where it listens.
    pub(crate) link: Option<String>,
    /// Slash commands.
    pub(crate) slack: Option<Chat>,
    /// Other chats.
    pub(crate) webhook: Option<Chat>,
    /// Where the token is for those who count.
    pub(crate) counter: Option<SecretSource>,
    /// The collector.
    pub(crate) telemetry: Option<Collector>,
    /// Which special addresses may be reached.
    pub(crate) private: Private,
}

impl Telling {
    /// Every secret that is named.
    pub(crate) fn sources(&self) -> Vec<&SecretSource> {
        let of_channels = self.channels.iter().filter_map(|channel| match &channel.way {
            ChannelWay::Webhook { secret, .. } => Some(secret),
            ChannelWay::Slack { url } => Some(url),
            ChannelWay::Email(email) => email.login.as_ref().map(|(_, password)| password),
        });
        let chats = self.slack.iter().chain(&self.webhook).map(|chat| &chat.secret);
        let collector = self.telemetry.iter().filter_map(|collector| collector.header.as_ref());
        let collector = collector.map(|(_, source)| source);
        of_channels.chain(chats).chain(&self.counter).chain(collector).collect()
    }
}

/// Somebody who is told that questions wait.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) way: ChannelWay,
    pub(crate) from_step: i64,
    pub(crate) every_ms: i64,
}

/// How they are told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChannelWay {
    Webhook { url: OwnUrl, secret: SecretSource },
    Slack { url: SecretSource },
    Email(Email),
}

/// Mail, by SMTP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Email {
    pub(crate) server: Target,
    pub(crate) tls: MailTls,
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) login: Option<(String, SecretSource)>,
}

/// A chat that brings answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chat {
    pub(crate) secret: SecretSource,
    /// The team that is meant; empty where there are none.
    pub(crate) team: String,
    pub(crate) users: BTreeMap<String, OperatorName>,
}

/// A collector that speaks OTLP over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Collector {
    pub(crate) endpoint: OwnUrl,
    pub(crate) header: Option<(String, SecretSource)>,
    pub(crate) traces: bool,
    pub(crate) metrics: bool,
    pub(crate) logs: bool,
    pub(crate) every_ms: i64,
}

impl Reader {
    pub(super) fn telling(&mut self, tree: &File, private: &Private) -> Telling {
        let approval = tree.approval.get();
        let channels = approval.and_then(|approval| approval.notify.get());
        let mut read: Vec<Channel> = Vec::new();
        for at in channels.into_iter().flatten() {
            let Some(channel) = self.channel(at, private) else { continue };
            if read.len() >= MOST_CHANNELS {
                self.refuse(at.place, format!("more than {MOST_CHANNELS} to be told"));
            } else if read.iter().any(|other| other.name == channel.name) {
                self.refuse(at.place, format!("there is a `{}` already", channel.name));
            } else {
                read.push(channel);
            }
        }
        let chat = approval.and_then(|approval| approval.chat.get());
        let (slack, webhook) = chat.map(|chat| self.chats(chat)).unwrap_or_default();
        let counter = tree.metrics.get().and_then(|metrics| metrics.token.at());
        let counter = counter.and_then(|token| {
            let source = self.source(token)?;
            if !source.is_at_hand() {
                self.refuse(token.place, "the token for numbers comes from `env:NAME` or `file:PATH`");
                return None;
            }
            Some(source)
        });
        Telling {
            channels: read,
            link: approval.and_then(|approval| approval.link.at()).and_then(|link| self.link(link)),
            slack,
            webhook,
            counter,
            telemetry: tree.telemetry.at().and_then(|telemetry| self.telemetry(telemetry, private)),
            private: private.clone(),
        }
    }

    fn channel(&mut self, at: &At<NotifyFile>, private: &Private) -> Option<Channel> {
        let file = &at.value;
        let Some(name) = file.name.at() else {
            self.refuse(at.place, "`name` is missing");
            return None;
        };
        let is_name = (1..=32).contains(&name.value.len())
            && name.value.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-_".contains(&c));
        if !is_name {
            self.refuse(name.place, "a name has small letters, digits, `-` and `_`, 32 at most");
        }
        let given = [file.webhook.at().is_some(), file.slack.at().is_some(), file.email.at().is_some()];
        if given.into_iter().filter(|given| *given).count() != 1 {
            self.refuse(at.place, "somebody is told in one way: `webhook`, `slack` or `email`");
            return None;
        }
        let way = if let Some(webhook) = file.webhook.at() {
            let (url, secret) = (&webhook.value.url, &webhook.value.secret);
            self.need(webhook, &[("url", url.at().is_some()), ("secret", secret.at().is_some())])?;
            let url = url.at().and_then(|url| self.own_url(url, private));
            let secret = secret.at().and_then(|secret| self.source(secret));
            ChannelWay::Webhook { url: url?, secret: secret? }
        } else if let Some(slack) = file.slack.at() {
            ChannelWay::Slack { url: self.source(slack)? }
        } else {
            ChannelWay::Email(self.email(file.email.at()?, private)?)
        };
        let from_step = file.from_step.get().copied().unwrap_or_default();
        let every = self.amount("every_seconds", &file.every_seconds, MOST_SECONDS).unwrap_or(60);
        let name = name.value.clone();
        is_name.then(|| Channel { name, way, from_step: whole(from_step), every_ms: whole(every * 1000) })
    }

    fn email(&mut self, at: &At<EmailFile>, private: &Private) -> Option<Email> {
        let file = &at.value;
        let given = [
            ("server", file.server.at().is_some()),
            ("from", file.from.at().is_some()),
            ("to", file.to.get().is_some_and(|to| !to.is_empty())),
        ];
        self.need(at, &given)?;
        let server = file.server.at()?;
        let Ok(target) = Target::parse(&server.value) else {
            self.refuse(server.place, "a server for mail is such as `mail.example.com:587`");
            return None;
        };
        let tls = match file.tls.at().map(|tls| (tls.value.as_str(), tls.place)) {
            None | Some(("starttls", _)) => MailTls::StartTls,
            Some(("implicit", _)) => MailTls::Implicit,
            Some(("never", place)) => {
                let host = &target.host;
                if !private.entries().iter().any(|entry| entry.covers(host)) {
                    self.refuse(place, "without TLS only a host is spoken to that `egress.private` lists");
                    return None;
                }
                MailTls::Never
            }
            Some((_, place)) => {
                self.refuse(place, "`tls` is `starttls`, `implicit` or `never`");
                return None;
            }
        };
        let all: Vec<&At<String>> =
            file.from.at().into_iter().chain(file.to.get().into_iter().flatten()).collect();
        let bad: Vec<_> = all.iter().filter(|address| !is_mail_address(&address.value)).collect();
        for address in &bad {
            self.refuse(address.place, "this is not an address for mail, such as `ops@example.com`");
        }
        let login = match (file.user.at(), file.password.at()) {
            (None, None) => None,
            (Some(user), Some(password)) if tls != MailTls::Never => {
                let is_plain = user.value.bytes().all(|byte| byte.is_ascii_graphic());
                if !is_plain {
                    self.refuse(user.place, "a user has plain characters");
                }
                Some((user.value.clone(), self.source(password)?))
            }
            (Some(at), Some(_)) => {
                self.refuse(at.place, "no password is said without TLS");
                return None;
            }
            (Some(at), None) | (None, Some(at)) => {
                self.refuse(at.place, "`user` and `password` go together");
                return None;
            }
        };
        let to: Vec<String> = file.to.get().into_iter().flatten().map(|to| to.value.clone()).collect();
        bad.is_empty().then_some(Email { server: target, tls, from: file.from.get()?.clone(), to, login })
    }

    fn chats(&mut self, chat: &ChatFile) -> (Option<Chat>, Option<Chat>) {
        let slack = chat.slack.at().and_then(|at| {
            let file = &at.value;
            let given =
                [("signing_secret", file.signing_secret.at().is_some()), ("team", file.team.at().is_some())];
            self.need(at, &given)?;
            let users = self.users(&file.users);
            let secret = self.source(file.signing_secret.at()?)?;
            Some(Chat { secret, team: file.team.get()?.clone(), users })
        });
        let webhook = chat.webhook.at().and_then(|at| {
            self.need(at, &[("secret", at.value.secret.at().is_some())])?;
            let users = self.users(&at.value.users);
            Some(Chat { secret: self.source(at.value.secret.at()?)?, team: String::new(), users })
        });
        (slack, webhook)
    }

    fn users(&mut self, given: &Given<BTreeMap<At<String>, At<String>>>) -> BTreeMap<String, OperatorName> {
        let mut users = BTreeMap::new();
        for (user, operator) in given.get().into_iter().flatten() {
            if let Some(operator) = self.operator(operator) {
                users.insert(user.value.clone(), operator);
            }
        }
        users
    }

    fn telemetry(&mut self, at: &At<Telemetry>, private: &Private) -> Option<Collector> {
        let file = &at.value;
        self.need(at, &[("endpoint", file.endpoint.at().is_some())])?;
        let endpoint = file.endpoint.at().and_then(|endpoint| self.own_url(endpoint, private));
        let header = match (file.header.at(), file.header_from.at()) {
            (None, None) => None,
            (Some(name), Some(from)) => Some((self.header_name(name)?, self.source(from)?)),
            (Some(at), None) | (None, Some(at)) => {
                self.refuse(at.place, "`header` and `header_from` go together");
                return None;
            }
        };
        let is_on = |given: &Given<bool>| given.get().copied().unwrap_or(true);
        let every = self.amount("every_seconds", &file.every_seconds, MOST_SECONDS).unwrap_or(15);
        Some(Collector {
            endpoint: endpoint?,
            header,
            traces: is_on(&file.traces),
            metrics: is_on(&file.metrics),
            logs: is_on(&file.logs),
            every_ms: whole(every * 1000),
        })
    }

    /// A place to send to. Not repeated: there may be a secret in it.
    fn own_url(&mut self, text: &At<String>, private: &Private) -> Option<OwnUrl> {
        OwnUrl::parse(&text.value, private).map_err(|error| self.refuse(text.place, error.to_string())).ok()
    }

    fn link(&mut self, text: &At<String>) -> Option<String> {
        let is_link = ["https://", "http://"].iter().any(|scheme| text.value.starts_with(scheme))
            && text.value.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>|\"'`".contains(&byte));
        if !is_link {
            self.refuse(text.place, "a link is such as `https://gate.example.com/`");
        }
        is_link.then(|| text.value.clone())
    }

    fn need<T>(&mut self, at: &At<T>, given: &[(&str, bool)]) -> Option<()> {
        let missing: Vec<&str> = given.iter().filter(|(_, is)| !is).map(|(name, _)| *name).collect();
        for name in &missing {
            self.refuse(at.place, format!("`{name}` is missing"));
        }
        missing.is_empty().then_some(())
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
