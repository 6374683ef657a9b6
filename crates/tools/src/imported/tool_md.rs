//! `TOOL.md`: a front matter that says what is run, and sections that say what it is good for.

use serde::Deserialize;
use serde_json::json;

use super::manifest::{Entry, kind_of, spec_of};
use super::spec::Spec;
use super::template::Argument;
use super::yaml;

/// The sections that there have to be.
const SECTIONS: [&str; 4] = ["capability", "inputs", "outputs", "failure modes"];

/// The tool of a `TOOL.md`.
pub(super) fn read(text: &str) -> Result<Spec, String> {
    let text = text.replace("\r\n", "\n");
    let rest = text.strip_prefix("---\n").ok_or("it begins with `---` and a front matter")?;
    let (front, body) = rest.split_once("\n---\n").ok_or("the front matter does not end with `---`")?;
    let front = yaml(front)?;
    let entry = Entry::deserialize(&front).map_err(|error| error.to_string())?;
    if !entry.arguments.is_empty() || !entry.description.is_empty() || !entry.failure_modes.is_empty() {
        return Err(
            "arguments, description and failure modes stand in the sections, not in the front matter"
                .to_owned(),
        );
    }
    let sections = sections_of(body)?;
    let [capability, inputs, outputs, failures] = sections;
    let spec = spec_of(entry, json!({ "front": front, "text": body }))?;
    let outputs = outputs.split_whitespace().collect::<Vec<_>>().join(" ");
    let description = match outputs.is_empty() {
        true => capability.trim().to_owned(),
        false => format!("{}\n\nGives: {outputs}", capability.trim()),
    };
    if capability.trim().is_empty() {
        return Err("the section `Capability` is empty".to_owned());
    }
    Ok(Spec {
        arguments: items(&inputs).map(argument_of).collect::<Result<_, _>>()?,
        failure_modes: items(&failures).map(str::to_owned).collect(),
        description,
        guide: Some(body.trim().to_owned()),
        ..spec
    })
}

/// The texts of the four sections.
fn sections_of(body: &str) -> Result<[String; 4], String> {
    let mut texts: [Option<String>; 4] = Default::default();
    let mut current: Option<usize> = None;
    for line in body.lines() {
        let heading = line.starts_with('#').then(|| line.trim_start_matches('#').trim().to_ascii_lowercase());
        if let Some(heading) = heading {
            current = SECTIONS.iter().position(|section| *section == heading);
            if let Some(text) = current.and_then(|place| texts.get_mut(place))
                && text.replace(String::new()).is_some()
            {
                return Err(format!("the section `{heading}` is there twice"));
            }
        } else if let Some(text) = current.and_then(|place| texts.get_mut(place)).and_then(Option::as_mut) {
            text.push_str(line);
            text.push('\n');
        }
    }
    let mut missing =
        SECTIONS.iter().zip(&texts).filter(|(_, text)| text.is_none()).map(|(section, _)| *section);
    if let Some(section) = missing.next() {
        return Err(format!("the section `{section}` is missing"));
    }
    Ok(texts.map(Option::unwrap_or_default))
}

/// The items of a list. `None.` and the like are no items.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix("- ").map(str::trim))
}

/// Reads `` `path` (path, required): The file. ``
fn argument_of(item: &str) -> Result<Argument, String> {
    let odd = || {
        format!("`{}` is no input: write - `name` (type, required): what it is", contract::show_hidden(item))
    };
    let (name, rest) = item.strip_prefix('`').and_then(|rest| rest.split_once('`')).ok_or_else(odd)?;
    let (inside, rest) =
        rest.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(odd)?;
    let mut words = inside.split(',').map(str::trim);
    let kind = words.next().and_then(kind_of).ok_or_else(odd)?;
    let required = match words.next() {
        None | Some("optional") => false,
        Some("required") => true,
        Some(_) => return Err(odd()),
    };
    let description = rest.trim_start_matches(':').trim().to_owned();
    Ok(Argument { name: name.to_owned(), kind, description, required, choices: Vec::new() })
}
