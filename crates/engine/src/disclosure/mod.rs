//! Progressive disclosure: an agent with many tools is told a line of each, and more of those it asks for.
//!
//! It decides nothing: a call through `call_tool` is the call of the tool it names, from its first step on. What an agent may
//! not see is not there for it: neither found, nor loaded, nor counted in what makes a word rare.
//!
//! # Invariants
//! - The discovery tools tell of tools that the agent may see, and of no others.
//! - A refusal is on record under the name of the tool that was asked for.
//! - What it costs to answer is bounded: what is asked is no longer, and no more often, than calls may be.
//! - What is loaded belongs to one agent and task, and never costs more than its budget.

mod card;
mod definitions;
mod level_one;
mod loaded;
mod rank;
mod tokens;
mod words;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contract::{
    AgentName, CallId, CallResult, CallStatus, Canonical, Digest, Reason, TaskName, ToolName, TrustLabel,
    chain, nearest, show_hidden,
};
use policy::DisclosureSettings;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tools::Guide;

pub(crate) use definitions::Discovery;
pub use definitions::{CALL_STATUS, DISCOVERY_NAMES, DiscoveryTool, discovery_tools};
pub use loaded::Context;
pub use tokens::count as count_tokens;

use crate::call::{filed_under, random_bytes, refuse_longer};
use crate::catalogue::Listed;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::request::Request;
use crate::settle::not_recorded;
use card::Card;
use definitions::{
    CallInput, LONGEST_QUERY, ListInput, LoadInput, MOST_FINDS, ResourceInput, SearchInput, USUAL_FINDS, read,
};
use level_one::level_one;
use loaded::{Loaded, NoRoom, OneLoaded};
use rank::rank;

/// As many loaded sets as are kept of one agent: agents name their tasks as they like.
const MOST_SETS: usize = 64;

/// What an agent's client is sent as definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// All tools that the agent may see.
    Everything,
    /// The discovery tools, and of the others these.
    Loaded(BTreeSet<ToolName>),
}

/// What this gate has disclosed, and to whom.
pub(crate) struct Disclosure {
    sets: Mutex<Sets>,
    /// What is told of tools, by their versions.
    cards: Mutex<HashMap<Version, Arc<Card>>>,
    changes: watch::Sender<u64>,
    /// How many questions of each agent were answered since when.
    asked: Mutex<HashMap<AgentName, (i64, u64)>>,
}

impl Default for Disclosure {
    fn default() -> Disclosure {
        Disclosure {
            sets: Mutex::default(),
            cards: Mutex::default(),
            changes: watch::Sender::new(0),
            asked: Mutex::default(),
        }
    }
}

/// What makes what is told of a tool another: its contract, its label, and what is found about it.
type Version = (Digest, TrustLabel, usize);

type Key = (AgentName, Option<TaskName>);

#[derive(Default)]
struct Sets {
    sets: HashMap<Key, (Loaded, u64)>,
    turn: u64,
}

impl Sets {
    /// The set of an agent and task. If the agent has too many, the one that was not asked for longest is gone.
    fn of(&mut self, key: Key) -> &mut Loaded {
        self.turn += 1;
        let turn = self.turn;
        if !self.sets.contains_key(&key) {
            // An agent with many tasks unloads its own tools, and nobody else's.
            let of_agent = self.sets.iter().filter(|((agent, _), _)| *agent == key.0);
            let own: Vec<(&Key, u64)> = of_agent.map(|(key, (_, used))| (key, *used)).collect();
            let is_full = own.len() >= MOST_SETS;
            let oldest = own.into_iter().min_by_key(|(_, used)| *used).map(|(key, _)| key.clone());
            if let (true, Some(oldest)) = (is_full, oldest) {
                self.sets.remove(&oldest);
            }
        }
        let (loaded, used) = self.sets.entry(key).or_default();
        *used = turn;
        loaded
    }
}

/// What came of a question to a discovery tool.
enum Found {
    Told {
        content: String,
        structured: Value,
    },
    /// It is the call of another tool.
    Call(Box<Request>),
}

/// Why there is no answer, and which tool that is about.
struct Refusal {
    about: String,
    reason: Reason,
}

impl Engine {
    /// What an agent's client is sent as definitions, for a task.
    pub fn shown_to(&self, agent: &AgentName, task: Option<&TaskName>) -> Shown {
        let visible = self.visible(agent);
        if !self.discloses(&visible) {
            return Shown::Everything;
        }
        let mut sets = self.sets();
        let loaded = sets.of((agent.clone(), task.cloned()));
        loaded.keep(|one| is_same(one, &visible));
        Shown::Loaded(loaded.names().cloned().collect())
    }

    /// Level 1 of an agent's tools, where they are disclosed step by step. Beside what else is sent at the start it stays
    /// within its budget.
    pub fn level_one_for(&self, agent: &AgentName, beside: &str) -> Option<String> {
        let visible = self.visible(agent);
        if !self.discloses(&visible) {
            return None;
        }
        let lines: Vec<_> = visible.iter().map(|tool| self.card(tool).line.clone()).collect();
        let budget = self.settings().disclosure.l1_token_budget;
        // The line break between them.
        let budget = budget.saturating_sub(tokens::count(beside)).saturating_sub(1);
        Some(level_one(&lines, budget, tokens::count))
    }

    /// The guides of an agent's tools.
    pub fn guides_for(&self, agent: &AgentName) -> Vec<(ToolName, Guide)> {
        let of = |tool: &Arc<Listed>| {
            let name = tool.facts.name.clone();
            tool.tool.guides().into_iter().map(move |guide| (name.clone(), guide)).collect::<Vec<_>>()
        };
        self.visible(agent).iter().flat_map(of).collect()
    }

    /// Takes note of how full a client says that its context is. Loaded tools may give way for that.
    pub fn note_context(&self, agent: &AgentName, task: Option<&TaskName>, context: Context) {
        self.note(agent, task, 0, Some(context));
    }

    /// Counts up whenever something is loaded or unloaded.
    pub fn loaded_changes(&self) -> watch::Receiver<u64> {
        self.inner.disclosure.changes.subscribe()
    }

    /// Takes note of what an agent was sent.
    pub(crate) fn note_sent(&self, agent: &AgentName, task: Option<&TaskName>, content: &str) {
        self.note(agent, task, tokens::estimate(content), None);
    }

    fn note(&self, agent: &AgentName, task: Option<&TaskName>, sent: u64, context: Option<Context>) {
        let settings = self.settings();
        // Whoever has few tools has loaded none; and to count them costs every call something.
        if self.catalogue().len() < settings.disclosure.min_tools || !self.discloses(&self.visible(agent)) {
            return;
        }
        let key = (agent.clone(), task.cloned());
        let gone = self.sets().of(key).note(sent, context, &settings.disclosure);
        self.tell_if(!gone.is_empty());
    }

    /// Answers a question to a discovery tool.
    pub(crate) async fn discover(
        &self,
        discovery: Discovery,
        request: Request,
        patience: Duration,
        cancel: CancellationToken,
    ) -> CallResult {
        let engine = self.anew();
        let tool = filed_under(discovery.as_str());
        let id = match random_bytes() {
            Ok(bytes) => CallId::from_random(bytes),
            Err(error) => return not_recorded(&CallId::from_random([0; 16]), &tool, &error.to_string()),
        };
        match engine.find(discovery, &request) {
            // INVARIANT(one-path): nothing that follows knows that it was asked for this way.
            Ok(Found::Call(inner)) => Box::pin(self.call_itself(*inner, patience, cancel)).await,
            Ok(Found::Told { content, structured }) => told(id, tool, content, structured),
            Err(Refusal { about, reason }) => {
                let refused = Request { tool: about, ..request };
                let tool = filed_under(&refused.tool);
                match engine.refuse_discovery(id.clone(), &tool, &refused, reason).await {
                    Ok(result) => result,
                    Err(error) => {
                        tracing::error!(call = %id, %tool, error = chain(&error), "a refusal could not be recorded");
                        not_recorded(&id, &tool, &error.to_string())
                    }
                }
            }
        }
    }

    /// The call that a request is really for: of the tool that `call_tool` names.
    pub(crate) fn meant(&self, request: &Request) -> Result<Request, Reason> {
        match Discovery::named(&request.tool) {
            Some(Discovery::Call) => self.find_call(request).map_err(|refusal| refusal.reason),
            _ => Ok(request.clone()),
        }
    }

    async fn refuse_discovery(
        &self,
        id: CallId,
        tool: &ToolName,
        request: &Request,
        reason: Reason,
    ) -> Result<CallResult, EngineError> {
        let _in_hand = self.take_in_hand(&id);
        let case = self.case_of(id, tool, request)?;
        let trace = json!([{ "layer": "discovery", "says": "deny", "why": reason.message }]);
        self.refuse(&case, request, reason, trace).await
    }

    fn find(&self, discovery: Discovery, request: &Request) -> Result<Found, Refusal> {
        let about_itself = |reason| Refusal { about: discovery.as_str().to_owned(), reason };
        self.refuse_if_suspended().map_err(about_itself)?;
        // What `call_tool` calls is measured and counted as the call that it is.
        if discovery != Discovery::Call {
            self.check_question(request).map_err(about_itself)?;
        }
        match discovery {
            Discovery::List => self.list(&read(request).map_err(about_itself)?, request),
            Discovery::Search => {
                self.search(&read(request).map_err(about_itself)?, request).map_err(about_itself)
            }
            Discovery::Load => self.load(&read(request).map_err(about_itself)?, request),
            Discovery::Resource => self.resource(&read(request).map_err(about_itself)?, request),
            Discovery::Call => self.find_call(request).map(|call| Found::Call(Box::new(call))),
        }
    }

    fn list(&self, input: &ListInput, request: &Request) -> Result<Found, Refusal> {
        let mut visible = self.visible(&request.agent);
        if let Some(category) = input.category {
            visible.retain(|tool| tool.facts.category == category);
        }
        if let Some(after) = &input.after {
            visible.retain(|tool| tool.facts.name.as_str() > after.as_str());
        }
        let budget = self.settings().disclosure.l1_token_budget;
        let mut content = String::new();
        let mut listed = Vec::new();
        let mut spent = 0;
        for tool in &visible {
            let card = self.card(tool);
            let line = format!("{}\n", card.line.whole());
            spent += tokens::count(&line);
            // One at least, else the list never ends.
            if spent > budget && !listed.is_empty() {
                break;
            }
            content.push_str(&line);
            listed.push(as_json(&card));
        }
        let left = visible.len().saturating_sub(listed.len());
        let last = visible.get(listed.len().saturating_sub(1)).map(|tool| tool.facts.name.as_str());
        if visible.is_empty() {
            content.push_str("there are no such tools\n");
        }
        if left > 0 {
            let _ = writeln!(
                content,
                "… and {left} more: go on with \"after\": \"{}\"",
                last.unwrap_or_default()
            );
        }
        Ok(Found::Told { content, structured: json!({ "tools": listed, "left": left }) })
    }

    /// Refuses what is too long to be read, and agents that ask too often.
    fn check_question(&self, request: &Request) -> Result<(), Reason> {
        let settings = self.settings();
        // ATTACK(endless-question): nothing looks at what is longer than arguments may be.
        refuse_longer(request, settings.max_arguments)?;
        let limit = settings.rates.counted_asked();
        let (now, window) = (self.now(), i64::try_from(limit.rate.window_ms).unwrap_or(i64::MAX));
        let mut asked = self.inner.disclosure.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = asked.entry(request.agent.clone()).or_insert((now, 0));
        let passed = now.saturating_sub(*since);
        if passed < 0 || passed >= window {
            (*since, *count) = (now, 0);
        }
        if *count >= limit.rate.max_calls {
            let left = window.saturating_sub(now.saturating_sub(*since));
            return Err(limit.used_up(u64::try_from(left).unwrap_or(0)));
        }
        *count += 1;
        Ok(())
    }

    fn search(&self, input: &SearchInput, request: &Request) -> Result<Found, Reason> {
        if input.query.chars().count() > LONGEST_QUERY {
            let why = format!("`query` has more than {LONGEST_QUERY} characters");
            return Err(Reason::bad_arguments(why).with_hint("say what you want to do in a few words"));
        }
        let limit = input.limit.unwrap_or(USUAL_FINDS).clamp(1, MOST_FINDS);
        let cards: Vec<Arc<Card>> = self.visible(&request.agent).iter().map(|tool| self.card(tool)).collect();
        let documents: Vec<_> = cards.iter().map(|card| &card.document).collect();
        let best = rank(&input.query, &documents);
        let found: Vec<&Arc<Card>> = best.iter().take(limit).filter_map(|place| cards.get(*place)).collect();
        let mut content: String = found.iter().map(|card| format!("{}\n", card.line.whole())).collect();
        if found.is_empty() {
            content.push_str("nothing fits these words; try others, or list_tools\n");
        } else {
            content.push_str("load_tool says what one takes, and lets you call it\n");
        }
        let found: Vec<Value> = found.into_iter().map(|card| as_json(card)).collect();
        Ok(Found::Told { content, structured: json!({ "tools": found, "matching": best.len() }) })
    }

    fn load(&self, input: &LoadInput, request: &Request) -> Result<Found, Refusal> {
        let visible = self.visible(&request.agent);
        let tool = self.resolve(&input.name, &visible)?;
        let (contract, guides) = (tool.contract(), tool.tool.guides());
        let name = contract.name();
        let card = self.card(tool);
        let (text, tokens) = card.level_two(&contract, &guides);
        let settings = self.settings();
        let settings = &settings.disclosure;
        let mut sets = self.sets();
        let loaded = sets.of((request.agent.clone(), request.task.clone()));
        let mut gone = loaded.keep(|one| is_same(one, &visible));
        let one = OneLoaded { name: name.clone(), hash: contract.hash(), tokens: *tokens };
        gone.extend(loaded.load(one, settings).map_err(|no_room| Refusal {
            about: name.to_string(),
            reason: why_no_room(&no_room, *tokens, settings),
        })?);
        let names: Vec<ToolName> = loaded.names().cloned().collect();
        let used = loaded.tokens();
        drop(sets);
        self.tell_if(self.discloses(&visible));
        let mut content =
            format!("loaded `{name}`: call it as `{}`, or with call_tool\n\n{text}", wire_name(name));
        if !gone.is_empty() {
            let gone: Vec<&str> = gone.iter().map(ToolName::as_str).collect();
            let _ = writeln!(content, "\nunloaded to make room: {}", gone.join(", "));
        }
        let structured = json!({
            "name": name,
            "call_as": wire_name(name),
            "hash": contract.hash(),
            "tokens": tokens,
            "loaded": names,
            "unloaded": gone,
            "loaded_tokens": used,
            "token_budget": settings.l2_token_budget,
        });
        Ok(Found::Told { content, structured })
    }

    fn resource(&self, input: &ResourceInput, request: &Request) -> Result<Found, Refusal> {
        let visible = self.visible(&request.agent);
        let tool = self.resolve(&input.name, &visible)?;
        let name = &tool.facts.name;
        let guides = tool.tool.guides();
        let names: Vec<&str> = guides.iter().map(|guide| guide.name.as_ref()).collect();
        let found = match &input.resource {
            Some(wanted) => guides.iter().find(|guide| guide.name == *wanted),
            None => guides.first(),
        };
        match found {
            Some(guide) => Ok(Found::Told {
                content: guide.text.clone().into_owned(),
                structured: json!({ "name": name, "resource": guide.name, "resources": names }),
            }),
            None => {
                let why = match &input.resource {
                    Some(wanted) => format!("`{name}` has no resource `{}`", shown(wanted)),
                    None => format!("`{name}` has no guide"),
                };
                let reason = Reason::bad_arguments(why);
                let reason = match names.is_empty() {
                    true => reason,
                    false => reason.with_hint(format!("it has {}", names.join(", "))),
                };
                Err(Refusal { about: name.to_string(), reason })
            }
        }
    }

    fn find_call(&self, request: &Request) -> Result<Request, Refusal> {
        let about_itself = |reason| Refusal { about: Discovery::Call.as_str().to_owned(), reason };
        let input: CallInput = read(request).map_err(about_itself)?;
        let arguments = Canonical::of(Value::Object(input.arguments))
            .map_err(|error| about_itself(Reason::bad_arguments(error.to_string())))?;
        let visible = self.visible(&request.agent);
        let purpose = Request::purpose_of(None, &arguments).or_else(|| request.purpose.clone());
        let call = |tool: String| Request { tool, arguments, purpose, ..request.clone() };
        // ATTACK(call-tool-around-a-rule): what the agent may not see is refused by the path itself, under its own name.
        let Some(tool) = named(&input.name, &visible) else {
            return match Discovery::named(&input.name) {
                Some(_) => Err(about_itself(Reason::bad_arguments(format!(
                    "`{}` is always there: call it by itself",
                    shown(&input.name)
                )))),
                None => Ok(call(input.name)),
            };
        };
        let name = &tool.facts.name;
        if self.discloses(&visible) {
            let mut sets = self.sets();
            let loaded = sets.of((request.agent.clone(), request.task.clone()));
            loaded.keep(|one| is_same(one, &visible));
            if !loaded.has(name) {
                let reason = Reason::bad_request(format!("`{name}` is not loaded for this task")).with_hint(
                    format!("load_tool {{\"name\": \"{name}\"}} says what it takes, and lets you call it"),
                );
                return Err(Refusal { about: name.to_string(), reason });
            }
        }
        Ok(call(name.to_string()))
    }

    /// The tool that an agent names so, if it may see it. One that it may not see is not there, in the same words.
    fn resolve<'a>(&self, asked: &str, visible: &'a [Arc<Listed>]) -> Result<&'a Arc<Listed>, Refusal> {
        named(asked, visible).ok_or_else(|| {
            // ATTACK(discovery-of-hidden-tools)
            let reason = Reason::unknown_tool(format!("you have no tool `{}`", shown(asked)));
            let names = visible.iter().map(|tool| tool.facts.name.as_str());
            let reason = match nearest(asked, names) {
                Some(near) => reason.with_hint(format!("did you mean `{near}`?")),
                None => reason.with_hint("search_tools finds those you have"),
            };
            Refusal { about: asked.to_owned(), reason }
        })
    }

    /// Whether an agent with these tools is told of them step by step.
    fn discloses(&self, visible: &[Arc<Listed>]) -> bool {
        visible.len() >= self.settings().disclosure.min_tools
    }

    fn visible(&self, agent: &AgentName) -> Vec<Arc<Listed>> {
        self.catalogue().tools_visible_to(agent, &self.settings())
    }

    fn card(&self, tool: &Listed) -> Arc<Card> {
        let contract = tool.contract();
        let mut cards = self.inner.disclosure.cards.lock().unwrap_or_else(PoisonError::into_inner);
        let version = (contract.hash(), contract.trust(), contract.findings().len());
        if let Some(card) = cards.get(&version) {
            return Arc::clone(card);
        }
        // Versions that were replaced are forgotten now and then.
        if cards.len() > self.catalogue().len().saturating_mul(2).saturating_add(64) {
            cards.clear();
        }
        let card = Arc::new(Card::of(&contract));
        cards.insert(version, Arc::clone(&card));
        card
    }

    fn sets(&self) -> MutexGuard<'_, Sets> {
        self.inner.disclosure.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_if(&self, changed: bool) {
        if changed {
            self.inner.disclosure.changes.send_modify(|count| *count += 1);
        }
    }
}

/// The name of a tool for clients that take no dots: `fs.read` is `fs_read`.
pub fn wire_name(name: &ToolName) -> String {
    name.as_str().replace('.', "_")
}

/// The tool that is named so, or that clients which take no dots name so.
fn named<'a>(asked: &str, tools: &'a [Arc<Listed>]) -> Option<&'a Arc<Listed>> {
    let exact = tools.iter().find(|tool| tool.facts.name.as_str() == asked);
    exact.or_else(|| tools.iter().find(|tool| wire_name(&tool.facts.name) == asked))
}

fn is_same(one: &OneLoaded, visible: &[Arc<Listed>]) -> bool {
    visible.iter().any(|tool| tool.facts.name == one.name && tool.facts.hash == one.hash)
}

fn as_json(card: &Card) -> Value {
    let line = &card.line;
    json!({ "name": line.name, "line": line.line, "category": line.category, "cost": line.cost })
}

fn why_no_room(no_room: &NoRoom, tokens: usize, settings: &DisclosureSettings) -> Reason {
    let budget = settings.l2_token_budget;
    match no_room {
        NoRoom::TooLarge => Reason::too_large(format!(
            "what it says of itself is {tokens} tokens, and loaded tools may cost {budget} together"
        ))
        .with_hint("whoever runs this gate can raise `tools.disclosure.l2_token_budget`"),
        NoRoom::Full { in_use } => Reason::too_large(format!(
            "it costs {tokens} tokens beside the {in_use} of what is loaded, and {budget} are the most"
        ))
        .with_hint("another task begins with nothing loaded"),
    }
}

fn shown(name: &str) -> String {
    show_hidden(&name.chars().take(128).collect::<String>())
}

fn told(id: CallId, tool: ToolName, content: String, structured: Value) -> CallResult {
    CallResult {
        call_id: id,
        tool,
        status: CallStatus::Completed,
        content,
        is_error: false,
        structured: Some(structured),
        artifacts: Vec::new(),
        cleaning: None,
        reason: None,
        approval: None,
        cost: None,
        receipt: None,
    }
}

#[cfg(test)]
mod tests;
