//! What it came to: tables for people, which can be put into a page as they are, and the same as JSON.

use std::fs;
use std::thread;

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::bars::{BARS, Bar, Bound, Part, Standing};
use crate::peers::Absent;

pub(crate) struct Report<'a> {
    pub(crate) who: &'a str,
    pub(crate) machine: String,
    pub(crate) sections: Vec<(Part, Section)>,
    pub(crate) absent: &'a [Absent],
}

/// What one part found.
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) notes: Vec<String>,
    /// Figures that have a bar, by its name.
    pub(crate) measured: Vec<(&'static str, f64)>,
}

pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

pub(crate) enum Cell {
    Text(String),
    /// With so many digits after the point.
    Number(f64, usize),
    Nothing,
}

impl Table {
    pub(crate) fn new(head: impl IntoIterator<Item = impl Into<String>>) -> Table {
        Table { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    fn print(&self) {
        let shown: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        let width = |column: usize| {
            let cells = shown.iter().chain([&self.head]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &[String]| {
            let cells = row.iter().zip(&widths).enumerate().map(|(place, (cell, width))| {
                if place == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            println!("| {} |", cells.collect::<Vec<_>>().join(" | "));
        };
        line(&self.head);
        println!("|{}|", widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("|"));
        shown.iter().for_each(|row| line(row));
        println!();
    }

    fn to_json(&self) -> Value {
        let names = self.names();
        let row = |row: &Vec<Cell>| {
            let cells = names.iter().zip(row);
            Value::Object(cells.map(|(name, cell)| (name.clone(), cell.to_json())).collect::<Map<_, _>>())
        };
        self.rows.iter().map(row).collect()
    }

    /// One for each column: a title that stands there more than once goes with the one before it.
    fn names(&self) -> Vec<String> {
        let is_alone = |title: &String| self.head.iter().filter(|other| *other == title).count() == 1;
        let mut before = "";
        let mut names = Vec::new();
        for title in &self.head {
            if is_alone(title) {
                before = title;
                names.push(title.clone());
            } else {
                names.push(format!("{before}, {title}"));
            }
        }
        names
    }
}

impl Cell {
    /// A figure that may not be there.
    pub(crate) fn maybe(value: Option<f64>, digits: usize) -> Cell {
        value.map_or(Cell::Nothing, |value| Cell::Number(value, digits))
    }

    pub(crate) fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(value, digits) => format!("{value:.digits$}"),
            Cell::Nothing => "–".to_owned(),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Number(value, _) => json!(value),
            Cell::Nothing => Value::Null,
        }
    }
}

impl Report<'_> {
    /// Whether every bar of these parts is kept. One that could not be measured is not kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.standings().all(|(_, standing)| matches!(standing, Standing::Met(_) | Standing::Elsewhere))
    }

    fn standings(&self) -> impl Iterator<Item = (&'static Bar, Standing)> {
        self.sections.iter().flat_map(|(part, section)| {
            let bars = BARS.iter().filter(|bar| bar.part == *part);
            bars.map(|bar| (bar, bar.standing(&section.measured, self.absent)))
        })
    }

    pub(crate) fn print(&self) {
        println!("As {}: {}", self.who, self.machine);
        println!();
        for (_, section) in &self.sections {
            println!("{}", section.title);
            println!();
            section.tables.iter().for_each(Table::print);
            section.notes.iter().for_each(|note| println!("{note}"));
            if !section.notes.is_empty() {
                println!();
            }
        }
        for Absent { name, why, .. } in self.absent {
            println!("{name:<10} absent: {why}");
        }
        println!();
        for (bar, standing) in self.standings() {
            let bound = match bar.bound {
                Bound::AtMost(most) => format!("≤ {most:.4}"),
                Bound::AtLeast(least) => format!("≥ {least:.4}"),
            };
            let bound = bound.trim_end_matches('0').trim_end_matches('.');
            let value = standing.value().map_or("–".to_owned(), |value| format!("{value:.3}"));
            println!("{:<12}  {} {bound}: {value}  ({})", standing.as_str(), bar.what, bar.source);
        }
        println!();
    }

    pub(crate) fn to_json(&self) -> Value {
        let sections = self.sections.iter().map(|(part, section)| {
            let tables: Vec<_> = section.tables.iter().map(Table::to_json).collect();
            let found = json!({ "title": section.title, "tables": tables, "notes": section.notes });
            (part.as_str().to_owned(), found)
        });
        let bars = self.standings().map(|(bar, standing)| {
            let (bound, at) = match bar.bound {
                Bound::AtMost(most) => ("at_most", most),
                Bound::AtLeast(least) => ("at_least", least),
            };
            json!({
                "name": bar.name,
                "what": bar.what,
                bound: at,
                "value": standing.value(),
                "standing": standing.as_str().to_lowercase(),
                "source": bar.source,
            })
        });
        let bars: Vec<_> = bars.collect();
        json!({
            "who": self.who,
            "machine": self.machine,
            "parts": sections.collect::<Map<_, _>>(),
            "absent": self.absent.iter().map(|one| json!({ "name": one.name, "why": one.why })).collect::<Vec<_>>(),
            "bars": bars,
        })
    }
}

pub(crate) fn describe_machine() -> Result<String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    Ok(format!("{} cores, Linux {}, load {load} before", thread::available_parallelism()?, kernel.trim()))
}
