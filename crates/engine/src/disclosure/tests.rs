//! How well tools are found by what people say, over the tools of real servers and our own.

use serde_json::Value;

use super::rank::{Document, Texts, rank};
use super::*;

/// What real servers list, as they gave it.
const UPSTREAM: [(&str, &str); 6] = [
    ("everything", include_str!("../../tests/data/upstream/everything.json")),
    ("fetch", include_str!("../../tests/data/upstream/fetch.json")),
    ("filesystem", include_str!("../../tests/data/upstream/filesystem.json")),
    ("git", include_str!("../../tests/data/upstream/git.json")),
    ("memory", include_str!("../../tests/data/upstream/memory.json")),
    ("time", include_str!("../../tests/data/upstream/time.json")),
];

const REQUESTS: &str = include_str!("../../tests/data/requests.txt");

/// Of how many requests the right tool has to be among the first three, in per cent.
const ENOUGH: usize = 90;

fn upstream() -> Vec<(String, Document)> {
    let mut documents = Vec::new();
    for (server, text) in UPSTREAM {
        let listed: Value = serde_json::from_str(text).unwrap();
        for tool in listed["tools"].as_array().unwrap() {
            let name = format!("mcp_{server}_{}", tool["name"].as_str().unwrap());
            let description = tool["description"].as_str().unwrap_or_default();
            let properties = tool["inputSchema"]["properties"].as_object();
            let texts = Texts {
                name: &name,
                title: tool["title"].as_str().unwrap_or_default(),
                line: description.split_inclusive(['.', '\n']).next().unwrap_or_default(),
                description,
                category: "mcp",
                arguments: properties.map(|all| all.keys().map(String::as_str).collect()).unwrap_or_default(),
            };
            let document = Document::of(&texts);
            documents.push((name, document));
        }
    }
    documents
}

fn ours() -> Vec<(String, Document)> {
    let tools = tools::built_in(&policy::Settings::default()).unwrap();
    tools
        .iter()
        .map(|tool| (tool.contract().name().to_string(), Card::of(tool.contract()).document))
        .collect()
}

#[test]
fn the_right_tool_is_among_the_first_three_for_nearly_all_requests() {
    let all: Vec<(String, Document)> = upstream().into_iter().chain(ours()).collect();
    let documents: Vec<&Document> = all.iter().map(|(_, document)| document).collect();
    let name = |place: &usize| all[*place].0.as_str();
    let (mut total, mut first, mut found) = (0, 0, 0);
    let mut missed = Vec::new();
    for line in REQUESTS.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (request, right) = line.split_once(" => ").unwrap();
        let right: Vec<&str> = right.split(", ").collect();
        assert!(right.iter().all(|right| all.iter().any(|(name, _)| name == right)), "{line}");
        let best: Vec<&str> = rank(request, &documents).iter().take(3).map(name).collect();
        total += 1;
        first += usize::from(best.first().is_some_and(|best| right.contains(best)));
        match best.iter().any(|name| right.contains(name)) {
            true => found += 1,
            false => missed.push(format!("  {request}: {} instead of {}", best.join(", "), right.join(", "))),
        }
    }
    #[expect(clippy::print_stdout, reason = "the score is what is asked for")]
    {
        println!(
            "{found} of {total} requests find the right one of {} tools among the first three, {first} as the first",
            all.len()
        );
        println!("{}", missed.join("\n"));
    }
    assert!(total >= 60 && found * 100 >= total * ENOUGH, "{found} of {total}:\n{}", missed.join("\n"));
}

#[test]
fn an_agent_with_many_tasks_unloads_its_own_tools_alone() {
    let mut sets = Sets::default();
    let key = |agent: &str, task: usize| {
        (AgentName::parse(agent).unwrap(), Some(TaskName::parse(&format!("t{task}")).unwrap()))
    };
    sets.of(key("quiet", 0));
    for task in 0..MOST_SETS * 20 {
        sets.of(key("busy", task));
    }
    assert!(sets.sets.contains_key(&key("quiet", 0)));
    assert_eq!(sets.sets.len(), MOST_SETS + 1);
}
