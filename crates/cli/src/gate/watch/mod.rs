//! `toolgate approvals --watch` at a terminal: what waits, what it is, and a yes or a no.
//!
//! # Invariants
//! - An answer is to the question that was on the screen, by its id, whatever has come or gone meanwhile.
//! - A yes is given to what was looked at to its end.
//! - Nothing that an agent has written reaches the terminal but as plain text.

mod card;
mod screen;

use std::io::Read;
use std::time::Duration;

use contract::ApprovalId;
use engine::{Credential, Engine, Reach, Reply, Waiting};
use store::{ApprovalState, Vote};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};

use self::card::{card, left, summary};
use self::screen::{Key, Line, Screen, keys};
use super::open::Opened;
use super::person::Person;
use super::{CODE_DONE, Trouble};

/// How often what waits is looked up, and how often time goes on.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(500);
/// The longest reason, in characters.
const LONGEST_REASON: usize = 500;

pub(super) fn is_possible() -> bool {
    Screen::is_there()
}

pub(super) async fn watch(opened: &Opened, person: &Person) -> Result<i32, Trouble> {
    // Whoever is no operator looks, and is told so when they answer.
    let credential = person.credential(opened).await.ok();
    let operator = match &credential {
        Some(credential) => opened.engine.operator_of(credential).await?,
        None => None,
    };
    let who = operator.map_or("nobody".to_owned(), |row| format!("{} ({})", row.name, row.role.as_str()));
    let mut ended = signal(SignalKind::terminate())?;
    let mut resized = signal(SignalKind::window_change())?;
    let mut typed = typed();
    let screen = Screen::take()?;
    let mut view = View { who, ..View::default() };
    let mut tick = interval(TICK);
    let mut looked: Option<Instant> = None;
    loop {
        if looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            view.take(opened.engine.waiting().await?);
            looked = Some(Instant::now());
        }
        let (width, height) = Screen::size();
        screen.draw(&view.lines(&opened.engine, width, height))?;
        tokio::select! {
            _ = tick.tick() => {}
            _ = resized.recv() => {}
            _ = ended.recv() => return Ok(CODE_DONE),
            bytes = typed.recv() => {
                let Some(bytes) = bytes else { return Ok(CODE_DONE) };
                for key in keys(&bytes) {
                    match view.press(key) {
                        Wish::Nothing => {}
                        Wish::Quit => return Ok(CODE_DONE),
                        Wish::Answer(ids, vote, reason) => {
                            view.said = answer(&opened.engine, credential.as_ref(), &ids, vote, reason).await;
                            looked = None;
                        }
                    }
                }
            }
        }
    }
}

/// Bytes as they are typed. The thread ends with the process: nothing can take a read back.
fn typed() -> mpsc::Receiver<Vec<u8>> {
    let (tell, told) = mpsc::channel(64);
    std::thread::spawn(move || {
        let mut bytes = [0; 256];
        while let Ok(read) = std::io::stdin().lock().read(&mut bytes) {
            let Some(read) = bytes.get(..read).filter(|read| !read.is_empty()) else { return };
            if tell.blocking_send(read.to_vec()).is_err() {
                return;
            }
        }
    });
    told
}

async fn answer(
    engine: &Engine,
    credential: Option<&Credential>,
    ids: &[ApprovalId],
    vote: Vote,
    reason: Option<String>,
) -> String {
    let Some(credential) = credential else {
        return "only an operator can answer, and there is no credential of one here".to_owned();
    };
    let mut said = Vec::new();
    for id in ids {
        let reply = Reply { vote, reason: reason.clone(), reach: Reach::ONCE };
        said.push(match engine.reply(id.as_str(), reply, credential, "cli").await {
            Ok(row) if row.state == ApprovalState::Pending => {
                format!("{}: {} of {} have said yes", id.short(), row.approvers.len(), row.quorum)
            }
            Ok(row) => format!("{}: {}", id.short(), row.state.as_str()),
            Err(error) => format!("{}: {error}", id.short()),
        });
    }
    said.join("; ")
}

/// What is asked of the person at the moment.
#[derive(Default, PartialEq, Eq)]
enum Asking {
    #[default]
    Nothing,
    /// Whether they mean it.
    Sure(Vec<ApprovalId>),
    /// Why not.
    Why(Vec<ApprovalId>, String),
    Help,
}

enum Wish {
    Nothing,
    Quit,
    Answer(Vec<ApprovalId>, Vote, Option<String>),
}

#[derive(Default)]
struct View {
    who: String,
    waiting: Vec<Waiting>,
    /// Which one is looked at; by its id, so that it stays the same when others come and go.
    at: Option<ApprovalId>,
    /// How far down its card, how far down that can be, and whether its end was seen.
    down: usize,
    most_down: usize,
    page: usize,
    seen: bool,
    asking: Asking,
    said: String,
}

impl View {
    fn take(&mut self, waiting: Vec<Waiting>) {
        self.waiting = waiting;
        if self.selected().is_none() {
            let had_one = self.at.is_some();
            self.select(self.waiting.first().map(|first| first.approval.id.clone()));
            // What is asked was about one that is gone.
            if had_one && matches!(self.asking, Asking::Sure(_) | Asking::Why(..)) {
                self.asking = Asking::Nothing;
                self.said = "that question is no longer open".to_owned();
            }
        }
    }

    fn selected(&self) -> Option<&Waiting> {
        self.waiting.iter().find(|question| Some(&question.approval.id) == self.at.as_ref())
    }

    fn select(&mut self, id: Option<ApprovalId>) {
        (self.at, self.down, self.seen) = (id, 0, false);
    }

    fn step(&mut self, back: bool) {
        let at = self.waiting.iter().position(|question| Some(&question.approval.id) == self.at.as_ref());
        let next = match (at, back) {
            (None, _) => 0,
            (Some(at), true) => at.saturating_sub(1),
            (Some(at), false) => (at + 1).min(self.waiting.len().saturating_sub(1)),
        };
        if at != Some(next) {
            self.select(self.waiting.get(next).map(|question| question.approval.id.clone()));
        }
    }

    fn press(&mut self, key: Key) -> Wish {
        if key == Key::End {
            return Wish::Quit;
        }
        match std::mem::take(&mut self.asking) {
            Asking::Nothing => return self.command(key),
            Asking::Help => {}
            Asking::Sure(ids) if key == Key::Text('y') => return Wish::Answer(ids, Vote::Approve, None),
            Asking::Sure(_) => self.said = "nothing was answered".to_owned(),
            Asking::Why(ids, mut why) => match key {
                Key::Enter => {
                    let reason = Some(why.trim().to_owned()).filter(|why| !why.is_empty());
                    return Wish::Answer(ids, Vote::Reject, reason);
                }
                Key::Escape => self.said = "nothing was answered".to_owned(),
                Key::Erase => {
                    why.pop();
                    self.asking = Asking::Why(ids, why);
                }
                Key::Text(character) => {
                    if why.chars().count() < LONGEST_REASON {
                        why.push(character);
                    }
                    self.asking = Asking::Why(ids, why);
                }
                _ => self.asking = Asking::Why(ids, why),
            },
        }
        Wish::Nothing
    }

    fn command(&mut self, key: Key) -> Wish {
        self.said.clear();
        match key {
            Key::Text('q') => return Wish::Quit,
            Key::Text('?') => self.asking = Asking::Help,
            Key::Text('j') | Key::Down => self.step(false),
            Key::Text('k') | Key::Up => self.step(true),
            Key::Text(' ' | 'f') | Key::PageDown => self.down = (self.down + self.page).min(self.most_down),
            Key::Text('b') | Key::PageUp => self.down = self.down.saturating_sub(self.page),
            Key::Text('a') => match self.ids() {
                // ATTACK(approved-unseen): what stands below the edge was not seen.
                Some(_) if !self.seen => {
                    self.said = "there is more of it below: look at it first, with space".to_owned();
                }
                Some(ids) => self.asking = Asking::Sure(ids),
                None => self.said = "nothing waits".to_owned(),
            },
            Key::Text('d') => match self.ids() {
                Some(ids) => self.asking = Asking::Why(ids, String::new()),
                None => self.said = "nothing waits".to_owned(),
            },
            _ => {}
        }
        Wish::Nothing
    }

    /// Those that are answered with the one that is looked at: it, and the same again as it is shown.
    fn ids(&self) -> Option<Vec<ApprovalId>> {
        let question = self.selected()?;
        let folded = question.folded.iter().map(|folded| folded.id.clone());
        Some(std::iter::once(question.approval.id.clone()).chain(folded).collect())
    }

    fn lines(&mut self, engine: &Engine, width: usize, height: usize) -> Vec<Line> {
        let now = engine.now();
        let card = self.selected().map(|question| card(question, engine, now, width));
        self.frame(card.unwrap_or_default(), now, width, height)
    }

    fn frame(&mut self, card: Vec<Line>, now: i64, width: usize, height: usize) -> Vec<Line> {
        let head = match self.waiting.len() {
            0 => "toolgate  nothing waits for approval".to_owned(),
            1 => "toolgate  1 question waits".to_owned(),
            many => format!("toolgate  {many} questions wait"),
        };
        let mut lines = vec![Line::cut(&format!("{head}   you are {}", self.who), width).marked(width)];
        let bottom = self.bottom(width, now);
        if self.asking == Asking::Help {
            lines.extend(HELP.iter().map(|line| Line::cut(line, width)));
            lines.truncate(height.saturating_sub(1));
            lines.resize(height.saturating_sub(1), Line::default());
            lines.push(bottom);
            return lines;
        }
        // A third of it for the list, and the one that is looked at is always in it.
        let room = (height / 3).max(1).min(self.waiting.len());
        let at = self.waiting.iter().position(|question| Some(&question.approval.id) == self.at.as_ref());
        let from = at.unwrap_or_default().saturating_sub(room.saturating_sub(1));
        for (index, question) in self.waiting.iter().enumerate().skip(from).take(room) {
            let is_it = Some(index) == at;
            let line = summary(question, now, width);
            lines.push(if is_it { line.marked(width) } else { line });
        }
        lines.push(Line::cut(&"─".repeat(width), width));
        let page = height.saturating_sub(lines.len() + 2);
        self.page = page.max(1);
        self.most_down = card.len().saturating_sub(page);
        self.down = self.down.min(self.most_down);
        if !card.is_empty() && self.down == self.most_down {
            self.seen = true;
        }
        let below = card.len().saturating_sub(self.down + page);
        lines.extend(card.into_iter().skip(self.down).take(page));
        lines.resize(height.saturating_sub(2), Line::default());
        let more = if below > 0 { format!("─── {below} more below, space ") } else { String::new() };
        lines.push(Line::cut(&format!("{more}{}", "─".repeat(width)), width));
        lines.push(bottom);
        lines
    }

    fn bottom(&self, width: usize, now: i64) -> Line {
        let short = |ids: &[ApprovalId]| ids.first().map(ApprovalId::short).unwrap_or_default();
        let text = match &self.asking {
            Asking::Sure(ids) => {
                let left = self.selected().map(|question| left(question.approval.expires_at, now));
                format!(
                    "approve {}{}? y to say yes ({} left)",
                    short(ids),
                    and_more(ids),
                    left.unwrap_or_default()
                )
            }
            Asking::Why(ids, why) => {
                // The end of it is what is being typed.
                let asked = format!("deny {}{}, because: ", short(ids), and_more(ids));
                let room = width.saturating_sub(asked.chars().count() + 1);
                let skip = why.chars().count().saturating_sub(room);
                return Line::cut(&format!("{asked}{}_", why.chars().skip(skip).collect::<String>()), width)
                    .marked(width);
            }
            Asking::Help => "any key goes back".to_owned(),
            Asking::Nothing if !self.said.is_empty() => self.said.clone(),
            Asking::Nothing => "j/k move  space more  a approve  d deny  ? help  q quit".to_owned(),
        };
        Line::cut(&text, width).marked(width)
    }
}

fn and_more(ids: &[ApprovalId]) -> String {
    match ids.len() {
        0 | 1 => String::new(),
        all => format!(" and {} more of the same", all - 1),
    }
}

const HELP: [&str; 14] = [
    "",
    "  j k, arrows     the next and the one before",
    "  space, b        down and up in what is shown of it",
    "  a               approve it for one call; y says that you mean it",
    "  d               deny it; you are asked why, and the agent is told",
    "  q               leave; nothing is answered by that",
    "",
    "  What the agent wrote is shown with everything hidden made visible: ⟨U+202E⟩",
    "  is a character that would turn the text around. Nothing is run by looking.",
    "",
    "  For longer than one call:  toolgate approve ID --scope task|agent|type",
    "  What you have said yes to: toolgate approvals --standing",
    "",
    "",
];
