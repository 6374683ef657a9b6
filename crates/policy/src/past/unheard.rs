//! What two policies differ in that no decision about a past call shows.

use serde_json::Value;

use crate::settings::Settings;

/// Where each stands in settings, and its key in a configuration.
const UNHEARD: [(&str, &str); 17] = [
    ("/hooks", "hooks"),
    ("/rates/tools", "policy.rate_limits"),
    ("/rates/each_agent", "policy.agent_rate_limit"),
    ("/rates/refused", "policy.refused_rate_limit"),
    ("/resources", "policy.resource_limits"),
    ("/budgets", "budgets"),
    ("/prices", "prices"),
    ("/files/max_bytes", "tools.filesystem.max_file_size"),
    ("/files/follow_links", "tools.filesystem"),
    ("/files/also_hidden", "tools.filesystem.hidden_names"),
    ("/files/also_protected", "tools.filesystem.protected_names"),
    ("/egress/block", "egress.block"),
    ("/egress/private", "egress.private"),
    ("/egress/credentials", "egress.credentials"),
    ("/egress/limits", "egress.limits"),
    ("/egress/http", "tools.http"),
    ("/upstreams", "mcp.servers"),
];

/// The keys of what a candidate changes, and a simulation hears not at all or only in part: how much was called and spent,
/// what a call may reach and use, and what it sees.
pub fn unheard(today: &Settings, candidate: &Settings) -> Vec<&'static str> {
    // What cannot be written down differs. All of a section is written that is left out where it is as ever.
    let written = |settings: &Settings| -> Option<Value> {
        let mut whole = serde_json::to_value(settings).ok()?;
        whole.as_object_mut()?.insert("egress".to_owned(), serde_json::to_value(&settings.egress).ok()?);
        Some(without_places(whole))
    };
    let (today, candidate) = (written(today), written(candidate));
    let part = |of: &Option<Value>, at: &str| of.as_ref().and_then(|of| of.pointer(at)).cloned();
    let differs =
        |at: &str| today.is_none() || candidate.is_none() || part(&today, at) != part(&candidate, at);
    UNHEARD.iter().filter(|(at, _)| differs(at)).map(|(_, key)| *key).collect()
}

/// The same wherever it stands.
fn without_places(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let rest = members.into_iter().filter(|(name, _)| name != "place");
            Value::Object(rest.map(|(name, member)| (name, without_places(member))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_places).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use contract::Rate;

    use super::*;
    use crate::rates::ToolRate;
    use crate::settings::ToolGlob;

    #[test]
    fn what_differs_unheard_is_named_and_where_it_stands_is_no_difference() {
        let rated = |place: &str| {
            let mut settings = Settings::default();
            let rate = Rate { max_calls: 2, window_ms: 60_000 };
            let tools = ToolGlob::parse("fs.*").unwrap();
            settings.rates.tools.push(ToolRate { tools, rate, place: place.to_owned() });
            settings
        };
        assert_eq!(unheard(&rated("a.yaml:3"), &rated("b.yaml:7")), Vec::<&str>::new());
        assert_eq!(unheard(&rated("a.yaml:3"), &Settings::default()), ["policy.rate_limits"]);
        let mut candidate = rated("a.yaml:3");
        candidate.files.also_hidden.insert("secret".to_owned());
        candidate.egress.block.push(contract::HostPattern::parse("bad.example").unwrap());
        candidate.rates.each_agent.max_calls = 1;
        let names = ["policy.agent_rate_limit", "tools.filesystem.hidden_names", "egress.block"];
        let found = unheard(&rated("a.yaml:3"), &candidate);
        assert_eq!(found, names);
    }
}
