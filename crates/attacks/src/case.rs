//! What a case is, and the three things it has to show: teeth, blocked, told.

use std::sync::atomic::Ordering;

use jail::{Control, Controls, Level, Limit, Outcome, Report};

use crate::Try;
use crate::bench::{Bench, Need};
use crate::launch::{Mode, Reply, Site, Start};

/// One attack, and what is promised about it.
pub(crate) struct Case {
    /// A short name. Where the code has a tag `ATTACK(name)`, the same name.
    pub(crate) id: &'static str,
    /// What is promised, as a sentence.
    pub(crate) promise: String,
    /// The walls that stand in its way.
    pub(crate) walls: Vec<Control>,
    /// How it is shown that the attack works.
    pub(crate) teeth: Teeth,
    /// What the report must say besides the walls.
    pub(crate) trace: Trace,
    /// What the host must have for this to be tried.
    pub(crate) needs: Vec<Need>,
    /// The attack, made anew at a place of its own each time.
    pub(crate) attempt: Attempting,
}

pub(crate) type Attempting = Box<dyn Fn(&Site<'_>) -> Try<Attempt> + Send + Sync>;
pub(crate) type Showing = Box<dyn Fn(&Site<'_>) -> Try<Effect> + Send + Sync>;

/// How it is shown that an attack works where nothing stops it.
pub(crate) enum Teeth {
    /// Without its walls it gets through; behind each one of them alone it does not.
    WithoutItsWalls,
    /// A plain process of the host gets through.
    Bare,
    /// Something else shows it.
    Shown(Showing),
}

/// What the answer must say of a blocked attack, besides that each wall stands.
pub(crate) enum Trace {
    /// No more than that.
    Walls,
    /// The run was stopped for this limit.
    Stopped(Limit),
    /// Nothing was executed, and the message holds this.
    Refused(&'static str),
    /// Something else.
    Also(fn(&Report) -> Try<()>),
}

/// What came of an attack, seen at its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing happened there.
    Held(String),
    /// It did.
    Through(String),
}

/// One attack that was made.
pub(crate) struct Attempt {
    pub(crate) effect: Effect,
    pub(crate) answer: Reply,
}

impl Effect {
    /// Through if the target says so.
    pub(crate) fn through_if(through: bool, what: impl Into<String>) -> Effect {
        if through { Effect::Through(what.into()) } else { Effect::Held(what.into()) }
    }
}

impl Case {
    /// A case that these walls stop, that gets through without them, and that every host can try.
    pub(crate) fn new(
        id: &'static str,
        promise: impl Into<String>,
        walls: &[Control],
        attempt: impl Fn(&Site<'_>) -> Try<Attempt> + Send + Sync + 'static,
    ) -> Case {
        Case {
            id,
            promise: promise.into(),
            walls: walls.to_vec(),
            teeth: Teeth::WithoutItsWalls,
            trace: Trace::Walls,
            needs: Vec::new(),
            attempt: Box::new(attempt),
        }
    }

    /// The name of its test.
    pub(crate) fn name(&self, group: &str) -> String {
        format!("{group}::{}::{}", self.id, self.promise.replace([' ', ','], "_").replace("__", "_"))
    }

    /// The three parts, in order.
    pub(crate) fn prove(&self, bench: &Bench) -> Try<()> {
        self.show_teeth(bench)?;
        self.try_each_wall_alone(bench)?;
        let can_be_in_place = self.attack(bench, Start::Cold)?;
        self.attack(bench, Start::Warm).map_err(|error| format!("in a sandbox that has waited: {error}"))?;
        if can_be_in_place {
            self.attack(bench, Start::InPlace)
                .map_err(|error| format!("in a sandbox that has waited in place: {error}"))?;
        }
        Ok(())
    }

    /// Returns whether a sandbox could have waited where the attack was made.
    fn attack(&self, bench: &Bench, start: Start) -> Try<bool> {
        let site = bench.site_from(Mode::behind_all(), start)?;
        let attempt = self.make_at(&site)?;
        match &attempt.effect {
            Effect::Held(_) => self.check_trace(bench, &attempt.answer)?,
            Effect::Through(what) => return Err(format!("attack: got through: {what}").into()),
        }
        Ok(site.can_be_in_place.load(Ordering::Relaxed))
    }

    /// Whether the attack gets through when its walls are left out.
    pub(crate) fn gets_through_without_walls(&self, bench: &Bench) -> Try<Effect> {
        Ok(self.make(bench, Mode::without(&self.walls), Start::Cold)?.effect)
    }

    fn show_teeth(&self, bench: &Bench) -> Try<()> {
        let effect = match &self.teeth {
            Teeth::WithoutItsWalls => self.gets_through_without_walls(bench),
            Teeth::Bare => self.make(bench, Mode::Bare, Start::Cold).map(|attempt| attempt.effect),
            Teeth::Shown(show) => bench.site(Mode::Bare).and_then(|site| show(&site)),
        };
        match effect.map_err(|error| format!("control: {error}"))? {
            Effect::Through(_) => Ok(()),
            Effect::Held(why) => {
                Err(format!("control: the attack does not work even without its walls: {why}").into())
            }
        }
    }

    /// Where walls stand behind each other, each one must hold by itself.
    fn try_each_wall_alone(&self, bench: &Bench) -> Try<()> {
        if self.walls.len() < 2 || !matches!(self.teeth, Teeth::WithoutItsWalls) {
            return Ok(());
        }
        for wall in &self.walls {
            let others: Vec<Control> = self.walls.iter().copied().filter(|other| other != wall).collect();
            let attempt = self.make(bench, Mode::without(&others), Start::Cold)?;
            if let Effect::Through(what) = attempt.effect {
                return Err(format!("attack: {wall} alone does not hold: {what}").into());
            }
        }
        Ok(())
    }

    fn check_trace(&self, bench: &Bench, answer: &Reply) -> Try<()> {
        if let Trace::Refused(words) = self.trace {
            return match answer {
                Reply::Refused(why) if why.contains(words) => Ok(()),
                other => Err(format!("trace: a refusal with `{words}` was expected, not: {other}").into()),
            };
        }
        let Reply::Report(report) = answer else {
            return Err(format!("trace: a report was expected, not: {answer}").into());
        };
        for wall in &self.walls {
            let level = report.enforcement.level(*wall);
            if level != Level::Enforced && !(level == Level::Partly && bench.may_be_partly(*wall)) {
                return Err(format!("trace: the report says {wall} is {level}").into());
            }
        }
        match self.trace {
            Trace::Stopped(limit) if report.outcome != Outcome::Stopped(limit) => {
                Err(format!("trace: stopped for {limit:?} was expected, not {:?}", report.outcome).into())
            }
            Trace::Also(check) => check(report).map_err(|error| format!("trace: {error}").into()),
            _ => Ok(()),
        }
    }

    fn make(&self, bench: &Bench, mode: Mode, start: Start) -> Try<Attempt> {
        self.make_at(&bench.site_from(mode, start)?)
    }

    fn make_at(&self, site: &Site<'_>) -> Try<Attempt> {
        (self.attempt)(site)
            .map_err(|error| format!("the attack could not be made ({}): {error}", site.mode).into())
    }
}

/// The controls of a list as a set.
pub(crate) fn set_of(controls: &[Control]) -> Controls {
    controls.iter().copied().fold(Controls::NONE, Controls::with)
}
