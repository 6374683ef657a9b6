//! Every route there is, each with whom it is for.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};
use contract::MAX_JSON_BYTES;

use super::app::App;
use super::caller::Who;
use super::guard::{admit, guard};
use super::problem::Problem;
use super::{approvals, budgets, calls, events, ledger, look, mcp, page, policy, sign_in, standing, tools};

/// One table makes both the list and the router, so that neither can have what the other lacks, and no route can be
/// added without saying whom it is for.
macro_rules! routes {
    ($($method:ident $path:literal, $who:ident => $handler:path;)+) => {
        /// Every route: its method, its path, and whom it is for.
        pub const ROUTES: &[(&str, &str, Who)] = &[$((stringify!($method), $path, Who::$who)),+];

        fn table(app: &App) -> Router<App> {
            Router::new()$(.route(
                $path,
                on(MethodFilter::$method, $handler)
                    .route_layer(from_fn_with_state((app.clone(), Who::$who), admit)),
            ))+
        }
    };
}

routes! {
    GET    "/",                              Anyone   => page::console;
    GET    "/assets/{file}",                 Anyone   => page::asset;
    GET    "/healthz",                       Anyone   => page::health;
    GET    "/sign-in",                       Anyone   => sign_in::open;
    POST   "/v1/sign-in-links",              Operator => sign_in::new_link;
    POST   "/v1/sign-out",                   Operator => sign_in::close;
    GET    "/v1/me",                         Operator => sign_in::whoami;
    POST   "/v1/calls",                      Agent    => calls::make;
    POST   "/v1/calls:batch",                Agent    => calls::make_all;
    GET    "/v1/calls",                      Either   => calls::list;
    GET    "/v1/calls/{id}",                 Either   => calls::show;
    DELETE "/v1/calls/{id}",                 Either   => calls::cancel;
    POST   "/v1/calls/{id}/reconciliation",  Operator => calls::reconcile;
    GET    "/v1/calls/{id}/story",           Operator => look::story;
    GET    "/v1/calls/{id}/receipt",         Operator => look::receipt;
    POST   "/v1/calls/{id}/reading",         Operator => look::reading;
    GET    "/v1/approvals",                  Operator => approvals::list;
    GET    "/v1/approvals/{id}",             Operator => look::question;
    POST   "/v1/approvals/{id}/decision",    Operator => approvals::decide;
    POST   "/v1/answers",                    Operator => approvals::answer;
    GET    "/v1/standing",                   Operator => standing::list;
    POST   "/v1/approvals/{id}/revocation",  Operator => standing::revoke;
    GET    "/v1/budgets",                    Operator => budgets::list;
    GET    "/v1/tools",                      Either   => tools::list;
    GET    "/v1/tools/{name}",               Either   => tools::show;
    GET    "/v1/registry",                   Operator => look::registry;
    GET    "/v1/registry/{name}",            Operator => look::registered;
    GET    "/v1/agents",                     Operator => look::agents;
    GET    "/v1/egress",                     Operator => look::egress;
    GET    "/v1/overview",                   Operator => look::overview;
    GET    "/v1/policy",                     Operator => look::policy;
    POST   "/v1/explain",                    Either   => tools::explain;
    POST   "/v1/policy/simulate",            Operator => policy::simulate;
    GET    "/v1/ledger/checkpoint",          Either   => ledger::checkpoint;
    GET    "/v1/ledger/proof/{seq}",         Operator => ledger::proof;
    GET    "/v1/ledger",                     Operator => look::entries;
    POST   "/v1/ledger/verification",        Operator => look::verify;
    GET    "/v1/events",                     Operator => events::follow;
    POST   "/mcp",                           Agent    => mcp::say;
    GET    "/mcp",                           Agent    => mcp::listen;
    DELETE "/mcp",                           Agent    => mcp::leave;
    GET    "/.well-known/oauth-protected-resource",     Anyone => mcp::metadata;
    GET    "/.well-known/oauth-protected-resource/mcp", Anyone => mcp::metadata;
}

/// The whole server, as a service.
pub(super) fn router(app: App) -> Router {
    table(&app)
        .fallback(async || Problem::of_status(StatusCode::NOT_FOUND))
        .method_not_allowed_fallback(async || Problem::of_status(StatusCode::METHOD_NOT_ALLOWED))
        .layer(DefaultBodyLimit::max(MAX_JSON_BYTES))
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}
