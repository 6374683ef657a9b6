//! What can be done about a refusal: one hint for each code that a decision has.
//!
//! A hint is read by agents, too: it names settings and commands, and nothing that is set there.

use contract::{AgentName, Code, Reason, ToolName};

/// The same reason with what can be done about it, unless it says so itself.
pub fn hinted(reason: Reason, agent: &AgentName, tool: &ToolName) -> Reason {
    match reason.hint {
        Some(_) => reason,
        None => {
            let hint = hint_for(reason.code, agent, tool);
            Reason { hint, ..reason }
        }
    }
}

fn hint_for(code: Code, agent: &AgentName, tool: &ToolName) -> Option<String> {
    let operator = |what: String| Some(format!("whoever runs this gate can change that: {what}"));
    match code {
        Code::UnknownAgent => {
            operator(format!("`agents` in toolgate.yaml names those there are, and not `{agent}`"))
        }
        Code::ToolDisabled => operator(format!(
            "`toolgate tools enable {tool}` if it was disabled by hand, else `tools` in toolgate.yaml; `toolgate tools show {tool}` shows it"
        )),
        Code::DeniedByList => operator(format!(
            "`denied_tools` and `denied_actions` of `agents.{agent}` in toolgate.yaml, and its `preset`"
        )),
        Code::NotInLevel => {
            operator(format!("`agents.{agent}.level`, `seniority` or `agents.{agent}.allowed_tools` in toolgate.yaml"))
        }
        Code::NotInRole => operator(format!("`agents.{agent}.role` or the role under `roles` in toolgate.yaml")),
        Code::Constrained => operator(format!(
            "`agents.{agent}.level`, `seniority` or `agents.{agent}.overrides` in toolgate.yaml, or `tools` where it is the tool that is kept short"
        )),
        Code::DeniedByRule => operator("the rule that is named stands in `approval.rules`".to_owned()),
        Code::RuleFailed => operator(
            "the rule that is named stands under `policy` in toolgate.yaml, or in a file named there; `has` asks whether there is something to look at"
                .to_owned(),
        ),
        Code::Locked => {
            operator(format!("`agents.{agent}.autonomy` and its `seniority` in toolgate.yaml; what only looks is not locked"))
        }
        Code::CommandNotAllowed => {
            operator("`tools.bash.allowed_commands` and `denied_commands` in toolgate.yaml".to_owned())
        }
        Code::NoOperator => {
            Some("an admin can add people with `toolgate operators add NAME --role approver`".to_owned())
        }
        Code::OverBudget => operator(
            "`budgets` in toolgate.yaml says how much there is, and `toolgate budgets` what is left of it".to_owned(),
        ),
        Code::HostNotAllowed => operator("`egress` in toolgate.yaml says which hosts there are".to_owned()),
        Code::CannotEnforce => {
            Some("whoever runs this gate can look at what it enforces, with `toolgate doctor`".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_a_decision_says_what_can_be_done_and_its_own_hint_wins() {
        let (agent, tool) = (AgentName::parse("coder").unwrap(), ToolName::parse("shell").unwrap());
        let refused = [
            Reason::unknown_agent(""),
            Reason::tool_disabled(""),
            Reason::denied_by_list(""),
            Reason::not_in_level(""),
            Reason::not_in_role(""),
            Reason::constrained(""),
            Reason::denied_by_rule(""),
            Reason::rule_failed(""),
            Reason::locked(""),
            Reason::command_not_allowed(""),
            Reason::no_operator(""),
            Reason::host_not_allowed(""),
            Reason::over_budget(""),
            Reason::cannot_enforce(""),
        ];
        for reason in refused {
            let code = reason.code;
            assert!(hinted(reason.clone(), &agent, &tool).hint.is_some(), "{code}");
            assert_eq!(hinted(reason.with_hint("mine"), &agent, &tool).hint.as_deref(), Some("mine"));
        }
        let hint = hinted(Reason::not_in_level(""), &agent, &tool).hint.unwrap();
        assert!(hint.contains("agents.coder.allowed_tools"), "{hint}");
    }
}
