//! The tools of a server as tools of ours.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clean::Findings;
use contract::{
    Actions, AgentName, Canonical, Contract, ContractError, Digest, EgressClass, Output, Reason, RunFacts,
    SafetyClass, ToolName, TrustLabel, chain,
};
use egress::OpenGrant;
use policy::{Era, Facets, Grant, Passed, Settings, UpstreamWay, WorkspaceAccess};
use serde_json::{Value, json};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::caller;
use super::cut::{unless_cut, within};
use super::guards::Guard;
use super::import::{Offer, Unfit};
use super::instance::{Instance, describe};
use super::result::{ResourceTexts, output_of};
use super::run_so_far::RunSoFar;
use super::session::{Ears, Silence};
use super::upstream::Upstream;
use super::web;
use crate::reach::{Methods, WayOut};
use crate::surroundings::Surroundings;
use crate::tool::{Ran, Tool, check_grant, taken_back};

/// Why no tool of ours is made of what a server offers.
#[derive(Debug, Error)]
pub enum NotMade {
    /// It is unfit.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// It is no contract.
    #[error("{}", chain(.0))]
    Contract(#[from] ContractError),
}

/// A tool of a server.
pub struct UpstreamTool {
    contract: Contract,
    /// What the server calls it.
    name: String,
    /// The digest of what the server says of it.
    digest: Digest,
    upstream: Arc<Upstream>,
}

impl UpstreamTool {
    /// The tool that an offer is, under this name.
    pub fn new(upstream: &Arc<Upstream>, offer: &Offer, name: &ToolName) -> Result<UpstreamTool, NotMade> {
        let timeout = Duration::from_millis(upstream.settings().timeout_ms);
        let definition =
            offer.definition_by(upstream.name(), name, timeout.as_secs().max(1), upstream.guards())?;
        let digest = Canonical::of(offer.original.clone()).map_err(Unfit::from)?.digest();
        let contract = Contract::with_trust(definition, TrustLabel::Untrusted)?;
        Ok(UpstreamTool { contract, name: offer.name.clone(), digest, upstream: Arc::clone(upstream) })
    }

    /// Sends the call to the instance of its agent, and hears its answer, unless it is cut short.
    async fn ask(
        &self,
        grant: &Grant,
        arguments: &Canonical,
        at: &Surroundings,
        cut: &CancellationToken,
    ) -> Result<(Answered, RunFacts), (Reason, RunFacts)> {
        let bare = |reason| (reason, RunFacts::default());
        let agent = owner_of(at).map_err(bare)?;
        let access = self.upstream.settings().workspace;
        // Let go last: after the server, if that has to be ended.
        let hold = unless_cut(cut, at.hold(grant.workspace(), access)).await.map_err(bare)?;
        let known = RunSoFar::nothing();
        let instance = unless_cut(cut, self.upstream.instance(agent, access, grant, at, &known)).await;
        let instance = instance.map_err(|reason| (reason, known.facts(None)))?;
        // ATTACK(rug-pull): what runs is what was imported, and pinned if it was.
        let is_another = instance.digest_of(&self.name) != Some(self.digest);
        if is_another && self.upstream.guards().stands(Guard::Definitions) {
            self.upstream.note_change();
            return Err((self.changed(), known.facts(None)));
        }
        let _turn = match &instance.doors {
            Some(_) => {
                let turn = unless_cut(cut, async { Ok(instance.turn.lock().await) }).await;
                Some(turn.map_err(|reason| (reason, known.facts(None)))?)
            }
            None => None,
        };
        let open = open(grant, at, &instance).map_err(|reason| (reason, known.facts(None)))?;
        let ears = Ears::of(at.caller());
        let mut params = json!({ "name": self.name, "arguments": arguments.value() });
        bring(&self.upstream, &ears, &mut params);
        let answered = tokio::select! {
            answered = instance.session.ask_for("tools/call", params, &ears) => Some(answered),
            // Dropped in the middle, the question is taken back.
            () = cut.cancelled() => None,
        };
        instance.touch();
        // Whoever is cut short has sent what it has sent, and the receipt says so.
        let usage = match open {
            Some(open) => Some(open.close().await),
            None => None,
        };
        if access == WorkspaceAccess::Write {
            instance.end();
        }
        drop(hold);
        let facts = known.facts(usage);
        match answered {
            Some(Ok(answer)) => {
                self.upstream.went_well(agent).await;
                Ok((Answered { answer, ears }, facts))
            }
            Some(Err(silence)) => {
                note_lacking(&ears, &silence);
                Err((self.no_answer(&silence), facts))
            }
            None => Err((taken_back(), facts)),
        }
    }

    async fn ask_over_http(
        &self,
        grant: &Grant,
        arguments: &Canonical,
        at: &Surroundings,
        cut: &CancellationToken,
    ) -> Result<(Answered, RunFacts), (Reason, RunFacts)> {
        match web::call(&self.upstream, &self.name, self.digest, grant, arguments, at, cut).await {
            (Ok(answer), facts) => Ok((Answered { answer, ears: Arc::default() }, facts)),
            (Err(web::NoAnswer::Changed), facts) => {
                self.upstream.note_change();
                Err((self.changed(), facts))
            }
            (Err(web::NoAnswer::Silent(silence)), facts) => Err((self.no_answer(&silence), facts)),
            (Err(web::NoAnswer::Refused(reason)), facts) => Err((reason, facts)),
        }
    }

    fn too_late(&self, grant: &Grant) -> Reason {
        let (timeout, egress) = (grant.authority().limits.timeout, grant.authority().egress);
        let why = format!("the server `{}` did not answer in {} s", self.upstream.name(), timeout.as_secs());
        // It had the question, and nobody knows what became of it.
        match egress {
            EgressClass::Write => Reason::outcome_unknown(why).with_hint("look before you try again"),
            EgressClass::None | EgressClass::ReadOnly => Reason::timeout(why),
        }
    }

    fn changed(&self) -> Reason {
        let (tool, server) = (&self.name, self.upstream.name());
        Reason::changed(format!("the server `{server}` offers `{tool}` otherwise than when it was imported"))
            .with_hint(
                "it is imported anew; whoever runs this gate sees the difference with `toolgate tools diff`",
            )
    }

    fn no_answer(&self, silence: &Silence) -> Reason {
        let why = format!("the server `{}` gave no answer: {}", self.upstream.name(), describe(silence));
        match silence {
            Silence::NotAsked => Reason::tool_failed(why).with_hint("try again"),
            Silence::Error(_) => Reason::tool_failed(why),
            // It had the question.
            Silence::Over(_) => Reason::outcome_unknown(why).with_hint("look before you try again"),
        }
    }

    fn prepare(&self, grant: &Grant, arguments: &Canonical, at: &Surroundings) -> Result<(), Reason> {
        check_grant(grant, &self.contract, arguments, at)?;
        if grant.authority().access < self.upstream.settings().workspace {
            return Err(Reason::internal("the grant does not permit this access to the workspace"));
        }
        Ok(())
    }
}

/// What a server answered, which is a stranger's word.
struct Answered {
    answer: Value,
    ears: Arc<Ears>,
}

/// Puts in what the maker of a call brings along for the server.
pub(super) fn bring(upstream: &Upstream, ears: &Ears, params: &mut Value) {
    let may_ask =
        [Passed::Elicitation, Passed::Sampling, Passed::Roots].iter().any(|one| upstream.passes(*one));
    let (Some(caller), Some(members)) = (ears.caller(), params.as_object_mut()) else { return };
    if upstream.settings().era != Era::Stateless || !may_ask {
        return;
    }
    if let Some(answers) = &caller.brought().answers {
        members.insert("inputResponses".to_owned(), json!(answers));
    }
    if let Some(state) = &caller.brought().state {
        members.insert("requestState".to_owned(), json!(state));
    }
}

/// Tells the maker of a call what a server needs a client to be able to, if that is why there is no answer.
pub(super) fn note_lacking(ears: &Ears, silence: &Silence) {
    if let (Silence::Error(error), Some(caller)) = (silence, ears.caller())
        && error.code == LACKING
    {
        caller.lacks(error.data.as_ref());
    }
}

/// The protocol's code for a client that cannot be asked what has to be asked.
const LACKING: i64 = -32021;

/// What is answered where the server wants something answered first. Nothing if it does not.
pub(super) fn asked_first(upstream: &Upstream, ears: &Ears, answer: &Value, facts: &RunFacts) -> Option<Ran> {
    if answer.get("resultType").and_then(Value::as_str) != Some("input_required") {
        return None;
    }
    let asked = answer.get("inputRequests").unwrap_or(&Value::Null);
    // ATTACK(server-asks-unbidden)
    let questions = caller::questions(upstream.name(), asked, |passed| upstream.passes(passed));
    let state = answer.get("requestState").and_then(Value::as_str).map(str::to_owned);
    let is_asked =
        questions.is_some_and(|questions| ears.caller().is_some_and(|caller| caller.needs(questions, state)));
    Some(if is_asked {
        let content = format!("the server `{}` asks its client something first", upstream.name());
        let output = Output { content, structured: json!({}), ..Output::default() };
        Ran { output, findings: Findings::default(), facts: facts.clone(), failure: None }
    } else {
        let why = format!("the server `{}` asks back what it may not ask here", upstream.name());
        let hint = "whoever runs this gate can let it: `pass_on` of the server";
        Ran::failed(Reason::tool_failed(why).with_hint(hint), facts.clone())
    })
}

/// Has the doors of a server's network served, as far as the call may reach.
pub(super) fn open(
    grant: &Grant,
    at: &Surroundings,
    instance: &Instance,
) -> Result<Option<OpenGrant>, Reason> {
    let Some(doors) = &instance.doors else { return Ok(None) };
    let Some(way) = WayOut::of(grant, at, Methods::ReadOnly, None)? else { return Ok(None) };
    let doors = doors.try_clone().map_err(|_| Reason::internal("the network cannot be served"))?;
    Ok(way.open(doors))
}

pub(super) fn owner_of(at: &Surroundings) -> Result<&AgentName, Reason> {
    at.owner().map(|owner| &owner.agent).ok_or_else(|| Reason::internal("the call is nobody's"))
}

impl Tool for UpstreamTool {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn is_for(&self, agent: &AgentName) -> bool {
        self.upstream.is_for(agent)
    }

    fn facets(&self, arguments: &Value, _settings: &Settings) -> Result<Facets, Reason> {
        refuse_case_variants(arguments)?;
        let definition = self.contract.definition();
        facets_of(&self.upstream, definition.safety, definition.egress, self.upstream.settings().workspace)
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            if let Err(reason) = self.prepare(&grant, arguments, at) {
                return Ran::failed(reason, RunFacts::default());
            }
            if cancel.is_cancelled() {
                return Ran::failed(taken_back(), RunFacts::default());
            }
            let cut = CancellationToken::new();
            let asked = async {
                match &self.upstream.settings().way {
                    UpstreamWay::Command(_) => self.ask(&grant, arguments, at, &cut).await,
                    UpstreamWay::Url(_) => self.ask_over_http(&grant, arguments, at, &cut).await,
                }
            };
            let (timeout, too_late) = (grant.authority().limits.timeout, || self.too_late(&grant));
            match within(timeout, &cancel, &cut, too_late, asked).await {
                Ok((Answered { answer, ears }, facts)) => {
                    match asked_first(&self.upstream, &ears, &answer, &facts) {
                        Some(asked) => asked,
                        None => ran(&self.upstream, answer, &ears, facts),
                    }
                }
                Err((reason, facts)) => Ran::failed(reason, facts),
            }
        })
    }
}

fn ran(upstream: &Upstream, answer: Value, ears: &Ears, facts: RunFacts) -> Ran {
    let texts_of_resources = match upstream.passes(Passed::Media) {
        true => ResourceTexts::Beside,
        false => ResourceTexts::Within,
    };
    match output_of(answer, texts_of_resources) {
        Ok(mut output) => {
            for note in ears.notes() {
                output.content.push_str(&format!("\n[{note}]"));
            }
            let facts = RunFacts { output: Some(Digest::of(output.content.as_bytes())), ..facts };
            Ran { output, findings: Findings::default(), facts, failure: None }
        }
        Err(why) => Ran::failed(Reason::bad_output(format!("the server's answer is not one: {why}")), facts),
    }
}

/// What a call of a server's tool does, as far as anybody can tell: whatever its server may.
pub(super) fn facets_of(
    upstream: &Upstream,
    safety: SafetyClass,
    egress: EgressClass,
    access: WorkspaceAccess,
) -> Result<Facets, Reason> {
    let settings = upstream.settings();
    let address = match &settings.way {
        UpstreamWay::Command(_) => None,
        UpstreamWay::Url(url) => Some(web::address_of(url)?),
    };
    let hosts: Vec<_> = address.into_iter().map(|address| address.target).collect();
    let reaches = settings.allow.iter().cloned().chain(hosts.iter().cloned().map(Into::into)).collect();
    Ok(Facets {
        action: Actions::built_in().parse("mcp:call").map_err(|error| Reason::internal(error.to_string()))?,
        safety,
        egress,
        access,
        profile: None,
        commands: Vec::new(),
        trees: Vec::new(),
        reaches,
        hosts,
    })
}

/// ATTACK(upstream-case-variant): a schema may leave an object open; what differs from another key by its case alone is not
/// passed on, because nobody knows which of them the server obeys.
fn refuse_case_variants(value: &Value) -> Result<(), Reason> {
    match value {
        Value::Object(members) => {
            if contract::case_variant(members).is_some() {
                return Err(Reason::bad_arguments("two keys of one object differ by their case alone"));
            }
            members.values().try_for_each(refuse_case_variants)
        }
        Value::Array(items) => items.iter().try_for_each(refuse_case_variants),
        _ => Ok(()),
    }
}
