//! What a client with many tools waits for at the start: the list over MCP, whole and told step by step.

use anyhow::{Result, ensure};

use crate::doors::{Ask, Server};
use crate::gate::Home;
use crate::gateway;
use crate::options::Options;
use crate::report::{Cell, Section, Table};
use crate::rounds::{Lane, median, time_rounds};

const TOOLS: usize = 500;

pub(crate) fn measure(options: &Options) -> Result<Section> {
    let whole = server(options, "lists-whole", 1_000_000)?;
    let steps = server(options, "lists-steps", 30)?;
    let last = format!("more_tool{}", TOOLS - 1);
    let lanes = [
        Ask::new("tools/list, all of them", &whole, "tools/list", "{}", &last),
        Ask::new("tools/list, step by step", &steps, "tools/list", "{}", "search_tools"),
        Ask::new(
            "search_tools",
            &steps,
            "tools/call",
            r#"{"name":"search_tools","arguments":{"query":"shows thing number 77"}}"#,
            "more.tool77",
        ),
    ];
    let lanes: Vec<&dyn Lane> = lanes.iter().map(|lane| lane as &dyn Lane).collect();
    let samples = time_rounds(&lanes, options.effort())?;
    let mut table = Table::new(["", "p50 ms", "p99 ms", "calls"]);
    for sample in &samples {
        table.rows.push(vec![
            Cell::text(&sample.name),
            Cell::Number(sample.percentile(50), 3),
            Cell::Number(sample.percentile(99), 3),
            Cell::Number(sample.calls() as f64, 0),
        ]);
    }
    let (through, note) = gateway::measure(options)?;
    Ok(Section {
        title: format!("{TOOLS} tools from a file, and our own, over MCP; and calls of another server"),
        tables: vec![table, through],
        notes: vec![note],
        measured: median(&samples, "tools/list, all of them")
            .map(|time| ("list-500", time))
            .into_iter()
            .collect(),
    })
}

/// A gate with many tools.
fn server(options: &Options, name: &str, min_tools: usize) -> Result<Server> {
    let home = Home::make(&options.toolgate, options.folder.join(name))?;
    let entry = |n: usize| {
        format!(
            "  - name: more.tool{n}\n    description: Shows thing number {n} of a directory, and what else is known of it.\n    permission_level: read\n    arguments:\n      path: {{ type: path, description: Where to look., required: true }}\n      word: {{ type: string, description: What to look for. }}\n    command: [grep, -c, --, \"{{word}}\", \"{{path}}\"]\n"
        )
    };
    home.configure(&format!("tools: {{ disclosure: {{ min_tools: {min_tools} }} }}\n"))?;
    let manifest =
        home.put("many.yaml", &format!("tools:\n{}", (0..TOOLS).map(entry).collect::<String>()))?;
    // What it says of each is not for the table.
    let registered = home.command(&["tools", "register", &manifest, "--apply"]).output()?;
    ensure!(registered.status.success(), "the tools were not registered");
    Server::start(home.command(&["mcp"]))
}
