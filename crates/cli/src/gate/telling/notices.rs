//! Tells people that questions wait: by mail, by a chat, by a webhook.
//!
//! # Invariants
//! - No call waits for it, and nothing that fails here fails a call; it is in the ledger what was sent and what was given up.
//! - One channel is told at most once in its time, of everything that waits by then.
//! - A question is told by one gate of those that share a store, and again after a restart if that did not end well.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use egress::{Mail, OwnError, Post, PostTo};
use engine::Engine;
use store::{DueNotice, NoticeOutcome, Noticed, StoreError};

use super::Live;
use super::text::{MOST_TOLD, Told};
use crate::config::{Channel, ChannelWay, Telling};

/// How often it is looked whether somebody is to be told.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many questions are taken in hand at once.
const MOST: u32 = 1000;
/// How long they are in hand: longer than a message can take.
const IN_HAND_MS: i64 = 60_000;
/// How long it takes until it is tried again, by how often it was tried.
const AGAIN_AFTER_MS: [i64; 4] = [5_000, 20_000, 60_000, 180_000];

pub(super) struct Notifier {
    live: Arc<Live>,
    engine: Engine,
    listens: SocketAddr,
    /// Channels that failed, and when each is tried again.
    not_before: BTreeMap<String, i64>,
}

impl Notifier {
    pub(super) fn new(live: Arc<Live>, engine: Engine, listens: SocketAddr) -> Notifier {
        Notifier { live, engine, listens, not_before: BTreeMap::new() }
    }

    pub(super) async fn run(mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let telling = self.live.telling();
            for channel in &telling.channels {
                // Without a store nobody is told; the next look tries again.
                if let Err(error) = self.look(channel, &telling).await {
                    tracing::warn!(channel = channel.name, %error, "who is to be told cannot be found out");
                }
            }
        }
    }

    async fn look(&mut self, channel: &Channel, telling: &Telling) -> Result<(), StoreError> {
        let now = self.engine.now();
        if self.not_before.get(&channel.name).is_some_and(|at| now < *at) {
            return Ok(());
        }
        let store = self.engine.store();
        // Fifty questions in five minutes are five messages.
        let last = store.last_notice(&channel.name).await?;
        if last.is_some_and(|at| now < at.saturating_add(channel.every_ms)) {
            return Ok(());
        }
        let wanted = Noticed { channel: &channel.name, from_step: channel.from_step, most: MOST };
        let due = store.claim_notices(wanted, now, now.saturating_add(IN_HAND_MS)).await?;
        if due.is_empty() {
            return Ok(());
        }
        // A question whose next step has come before anybody was told of the one before is told once.
        let mut told: Vec<&DueNotice> = Vec::new();
        for notice in &due {
            match told.iter_mut().find(|other| other.approval == notice.approval) {
                Some(other) if other.step < notice.step => *other = notice,
                Some(_) => {}
                None => told.push(notice),
            }
        }
        let mut questions = Vec::new();
        for notice in told.iter().take(MOST_TOLD) {
            if let Some(row) = store.approval(&notice.approval).await? {
                questions.push(((*notice).clone(), row));
            }
        }
        let more = told.len().saturating_sub(questions.len());
        let listens = format!("http://{}/", self.listens);
        let link = telling.link.as_deref().unwrap_or(&listens);
        let told = Told { questions: &questions, more, link, now };
        match self.send(channel, telling, &told).await {
            Ok(()) => {
                self.not_before.remove(&channel.name);
                store.end_notices(&channel.name, &due, &NoticeOutcome::Sent, self.engine.now()).await
            }
            Err(error) => self.failed(channel, due, &error).await,
        }
    }

    async fn failed(
        &mut self,
        channel: &Channel,
        due: Vec<DueNotice>,
        error: &OwnError,
    ) -> Result<(), StoreError> {
        let store = self.engine.store();
        let now = self.engine.now();
        tracing::warn!(channel = channel.name, %error, questions = due.len(), "people could not be told");
        let wait = |attempts: i64| {
            let at = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
            AGAIN_AFTER_MS.get(at).copied().filter(|_| !error.is_final())
        };
        let (given_up, again): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|notice| wait(notice.attempts).is_none());
        let soonest = again.iter().filter_map(|notice| wait(notice.attempts)).min();
        let longest = AGAIN_AFTER_MS.last().copied().unwrap_or_default();
        let next = now.saturating_add(soonest.unwrap_or(longest));
        self.not_before.insert(channel.name.clone(), next);
        if !again.is_empty() {
            store.retry_notices(&channel.name, &again, next).await?;
        }
        if !given_up.is_empty() {
            let outcome = NoticeOutcome::Failed(error.to_string());
            store.end_notices(&channel.name, &given_up, &outcome, now).await?;
        }
        Ok(())
    }

    async fn send(&self, channel: &Channel, telling: &Telling, told: &Told<'_>) -> Result<(), OwnError> {
        let (egress, private) = (&self.live.egress, &telling.private);
        let source = |source| self.live.source(source).ok_or(OwnError::NoSecret);
        let post = |body: serde_json::Value| Post {
            content_type: "application/json",
            body: body.to_string().into_bytes(),
            signed: None,
            secret_header: None,
        };
        match &channel.way {
            ChannelWay::Webhook { url, secret } => {
                let secret = source(secret)?;
                let post = Post { signed: Some((&secret, told.now / 1000)), ..post(told.json()) };
                egress.post(PostTo::Url(url), post, private).await
            }
            ChannelWay::Slack { url } => {
                egress.post(PostTo::Secret(&source(url)?), post(told.slack()), private).await
            }
            ChannelWay::Email(email) => {
                let password = match &email.login {
                    Some((user, secret)) => Some((user.as_str(), source(secret)?)),
                    None => None,
                };
                let id = told
                    .questions
                    .first()
                    .map(|(notice, _)| format!("{}.{}.{}", notice.approval, notice.step, told.now));
                let mail = Mail {
                    server: email.server.clone(),
                    tls: email.tls,
                    login: password.as_ref().map(|(user, secret)| (*user, secret)),
                    from: &email.from,
                    to: &email.to,
                    subject: &format!("[toolgate] {}", told.subject()),
                    text: &told.text(),
                    now: told.now,
                    id: &id.unwrap_or_default(),
                };
                egress.mail(&mail, private).await
            }
        }
    }
}
