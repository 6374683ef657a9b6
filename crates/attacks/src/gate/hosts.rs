//! What may be reached, at the decision: lists, opt-ins, and what a yes covers.
//!
//! Nothing here goes anywhere: the command that names a host does nothing with it.

use contract::{CallStatus, HostPattern, Network, Private, Reach, Scope};
use policy::{Agent, EgressSettings, Settings};
use serde_json::{Value, json};
use store::Vote;

use super::approvals::end;
use super::standing::reply;
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Stand, settings_of};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "metadata-in-a-range",
            "whoever opens the local link does not open the metadata service in it",
            |_| {
                let link = Network::parse("169.254.0.0/16").map_err(|error| error.to_string())?;
                Ok(Effect::through_if(
                    link.holds("169.254.169.254".parse()?),
                    "it is in the range that was opened",
                ))
            },
            |stand| {
                let gate = stand.gate(opening(&["169.254.0.0/16"])?)?;
                for host in ["169.254.169.254", "169.254.170.2", "[::ffff:a9fe:a9fe]", "0xa9fea9fe"] {
                    gate.call(
                        "shell",
                        naming(&format!("http://{host}/")),
                        Ending::Refused("host_not_allowed"),
                    )?;
                }
                Ok(Effect::Held("nothing was run".to_owned()))
            },
        )
        .without("the need for an entry of its own", |stand| {
            approved(&stand.gate(opening(&["169.254.169.254"])?)?, "http://169.254.169.254/")
        }),
        Case::new(
            "unlisted-host",
            "a host on no list is asked for, in whatever it is like a listed one",
            |stand| ran(&approved_for_its_kind(stand)?, "https://one.example/"),
            |stand| {
                wait_all(&approved_for_its_kind(stand)?, LIKE_LISTED)?;
                Ok(Effect::Held("each was asked for".to_owned()))
            },
        ),
        Case::new(
            "empty-list",
            "an empty list is nobody, and nobody is asked",
            |stand| approved(&stand.gate(listing(&["one.example:443"], &[])?)?, "https://one.example/"),
            |stand| {
                let gate = stand.gate(listing(&[], &[])?)?;
                for call in [naming("https://one.example/"), naming("no url")] {
                    gate.call("shell", call, Ending::Refused("host_not_allowed"))?;
                }
                Ok(Effect::Held("nothing was run".to_owned()))
            },
        ),
        Case::new(
            "blocked-host",
            "a blocked host is refused in every spelling, whatever lists it",
            |stand| approved(&stand.gate(listing(&["*.evil.example:443"], &[])?)?, "https://a.evil.example/"),
            |stand| {
                let gate = stand.gate(listing(&["*.evil.example:443"], &["a.evil.example"])?)?;
                for host in ["a.evil.example", "A.EVIL.example.", "ａ.evil.example", "a。evil。example"] {
                    let url = format!("https://{host}/");
                    gate.call("shell", naming(&url), Ending::Refused("host_not_allowed"))?;
                }
                Ok(Effect::Held("nothing was run".to_owned()))
            },
        ),
        Case::new(
            "standing-for-another-host",
            "a yes for more than one call is none to another host, though both are listed",
            |stand| ran(&approved_for_its_kind(stand)?, "https://one.example/"),
            |stand| {
                let gate = approved_for_its_kind(stand)?;
                wait_all(&gate, &["https://two.example/", "https://one.example/ https://two.example/"])?;
                Ok(Effect::Held("it was asked for anew".to_owned()))
            },
        ),
    ]
}

const LIKE_LISTED: &[&str] = &[
    "https://unlisted.example/",
    "https://www.one.example/",
    "https://one.example.evil.example/",
    "https://notone.example/",
    "https://one.example:8443/",
    "http://one.example/",
    "https://one.example@unone.example/",
    "https://оnе.example/",
    "https://оne.example/",
];

/// A command that names a URL, and reaches nobody.
fn naming(url: &str) -> Value {
    json!({ "command": "true", "args": [url], "profile": "networked" })
}

/// Through if it runs without a question.
fn ran(gate: &Gate<'_>, url: &str) -> Try<Effect> {
    let result = gate.call("shell", naming(url), Ending::Done)?;
    Ok(Effect::through_if(result.status == CallStatus::Completed, result.content))
}

/// Through if it runs once somebody careless has said yes.
fn approved(gate: &Gate<'_>, url: &str) -> Try<Effect> {
    let (_, view) = gate.waits("shell", naming(url))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    ran(gate, url)
}

/// Each has to wait, and people say no.
fn wait_all(gate: &Gate<'_>, urls: &[&str]) -> Try<()> {
    for url in urls {
        let (call, _) = gate.waits("shell", naming(url))?;
        end(gate, &call, Vote::Reject, "rejected")?;
    }
    Ok(())
}

/// A gate where somebody has said yes to all such commands, when one named one of two listed hosts.
fn approved_for_its_kind<'a>(stand: &'a Stand<'a>) -> Try<Gate<'a>> {
    let gate = stand.gate(listing(&["one.example:443", "two.example:443"], &[])?)?;
    let (_, view) = gate.waits("shell", naming("https://one.example/"))?;
    reply(&gate, view.id.as_str(), Scope::Type, None)?;
    match ran(&gate, "https://one.example/")? {
        Effect::Through(_) => Ok(gate),
        Effect::Held(why) => Err(format!("it does not run though it was approved: {why}").into()),
    }
}

/// The usual agent, and these lists.
fn listing(allow: &[&str], block: &[&str]) -> Try<Settings> {
    Ok(Settings { egress: lists(allow, block)?, ..settings_of(Agent::default()) })
}

/// The same where these are opted in to, and all of the local link is listed.
fn opening(private: &[&str]) -> Try<Settings> {
    let mut opened = Private::none();
    for entry in private {
        opened.add(entry).map_err(|error| error.to_string())?;
    }
    let egress = EgressSettings { private: opened, ..lists(&["169.254.0.0/16:80"], &[])? };
    Ok(Settings { egress, ..settings_of(Agent::default()) })
}

fn lists(allow: &[&str], block: &[&str]) -> Try<EgressSettings> {
    let allow: Result<Vec<Reach>, _> = allow.iter().map(|text| Reach::parse(text)).collect();
    let block: Result<Vec<HostPattern>, _> = block.iter().map(|text| HostPattern::parse(text)).collect();
    Ok(EgressSettings {
        allow: Some(allow.map_err(|error| error.to_string())?),
        block: block.map_err(|error| error.to_string())?,
        // A gate that names one has a way out. It is never asked.
        nameservers: vec!["192.0.2.53:53".parse()?],
        ..EgressSettings::default()
    })
}
