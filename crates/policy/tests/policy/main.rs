//! What is decided, part by part.

mod approvals;
mod budgets;
mod cedar;
mod decide;
mod given;
mod nearest;
mod places;
mod roles;
mod rule_schema;
