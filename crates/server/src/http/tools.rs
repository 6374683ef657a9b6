//! The tools an agent may know of, and what would be decided of a call.

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use contract::Contract;
use engine::Audience;

use super::app::App;
use super::body;
use super::caller::Caller;
use super::calls::Asked;
use super::problem::Problem;
use super::shapes::{Tool, Tools, WholeTool};

pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let tools: Vec<Tool> = app.gate.tools(caller.acting_agent()?).iter().map(in_short).collect();
    Ok(body::json(StatusCode::OK, &Tools { tools }))
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let tools = app.gate.tools(caller.acting_agent()?);
    let contract = tools.iter().find(|contract| contract.name().as_str() == name);
    let contract = contract.ok_or_else(|| Problem::not_found("tool"))?;
    Ok(body::json(StatusCode::OK, &in_full(contract)))
}

pub(super) async fn explain(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let agent = caller.acting_agent()?.clone();
    let asked: Asked = body::read(request).await?;
    // What would have to be loosened is for those who may do that, not for the model that wants it.
    let to = match &caller {
        Caller::Agent(_) => Audience::Agent,
        _ => Audience::People,
    };
    // The page makes no calls: it asks what the agent would hear, and whoever asks may well be the one to answer.
    let proposer = match &caller {
        Caller::Operator(operator) if operator.session.is_some() => None,
        _ => caller.proposer().cloned(),
    };
    let asked = asked.into_request(agent, proposer)?;
    let explanation = app.gate.explain(&asked, to).await?;
    Ok(body::json(StatusCode::OK, &explanation))
}

pub(super) fn in_short(contract: &Contract) -> Tool {
    let definition = contract.definition();
    Tool {
        name: contract.name().clone(),
        title: definition.title.clone(),
        description: contract.shown_description(),
        category: definition.category,
        safety: definition.safety,
        egress: definition.egress,
        cost: definition.cost,
        hash: contract.hash(),
        trust: contract.trust(),
        findings: contract.findings().to_vec(),
    }
}

pub(super) fn in_full(contract: &Contract) -> WholeTool {
    let definition = contract.definition();
    WholeTool {
        tool: in_short(contract),
        action: definition.action.clone(),
        idempotency: definition.idempotency,
        input: definition.input.clone(),
        output: definition.output.clone(),
        examples: definition.examples.clone(),
        failure_modes: definition.failure_modes.clone(),
        timeout_seconds: definition.timeout_seconds,
    }
}
