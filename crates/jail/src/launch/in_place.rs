//! A sandbox that waits where the next plan is likely to be run, with every wall around it.
//!
//! Agents work in one place for a while. Whoever has run a second plan there has the next sandbox wait in the same place: what the
//! plan grants is mounted, the limits are written and the walls are raised, and nothing is left to be done but to execute a command.
//!
//! # Invariants
//! - It is used for a plan that differs from the one it was made for by its command alone.
//! - The directories are searched when the plan is there, as for every run. If there is anything to guard in them, or they are not
//!   those that are mounted, another sandbox is made.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use super::{Prepared, SEARCH, StartError, give_orders, held_by_launcher, tell, wanted_of};
use crate::control::Enforcement;
use crate::directories::{Opened, are_the_same, have_nothing_to_guard, open_directories, open_unsearched};
use crate::plan::Plan;
use crate::stream::Streams;
use crate::windows::Window;

/// Where a sandbox waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// After stage one, for any plan.
    Anywhere,
    /// In the place of the plan that was expected.
    InPlace,
}

/// All of a plan but its command, as an init has it that waits for this.
pub(super) struct Place {
    plan: Plan,
    pub(super) opened: Vec<Opened>,
    pub(super) held: Enforcement,
}

impl Prepared {
    /// Has the init go where a plan like this one is run, and wait there behind every wall. False if it is as before.
    ///
    /// Nothing is searched: what has to be guarded may change until the plan is there, and is looked for then.
    pub(super) fn take_place(&mut self, plan: Plan, windows: &[Window]) -> Result<bool, StartError> {
        if !plan.has_lasting_place() || !self.has_places_for(&plan) {
            return Ok(false);
        }
        let Ok(opened) = open_unsearched(&plan, windows) else { return Ok(false) };
        if !have_nothing_to_guard(&opened) {
            return Ok(false);
        }
        let Ok((mut orders, mounts)) =
            give_orders(&plan, &self.identity, &opened, None, (&self.nursery, self.root))
        else {
            return Ok(false);
        };
        orders.command = None;
        orders.holds_outputs = true;
        self.cgroup.limit(&plan.draft().limits, wanted_of(&plan));
        let door = self.cgroup.second_door();
        orders.enters_cgroup = door.is_some();
        let descriptors: Vec<BorrowedFd<'_>> = door.into_iter().chain(&mounts).map(AsFd::as_fd).collect();
        let held = held_by_launcher(&plan, &self.identity, &self.cgroup, &opened);
        // INVARIANT(limits-first): as in `order`; it can start nothing before it has a command.
        tell(&self.socket, &orders, &descriptors)?;
        self.place = Some(Place { plan, opened, held });
        Ok(true)
    }

    /// Whether it stands where this plan is run.
    ///
    /// ATTACK(place-that-changed): all of it is searched now, as for any run, and nothing may have to be guarded there. What the init
    /// has mounted is there as long as it is, so no other directory has its number.
    pub(super) fn is_in_place_for(&mut self, plan: &Plan, streams: &Streams, begun: Instant) -> bool {
        let windows = self.waited.windows();
        let Some(place) = self.place.as_mut().filter(|place| place.plan.shares_place_with(plan)) else {
            return false;
        };
        if !plan.has_lasting_place() || !matches!(streams, Streams::Collect { .. }) || windows.is_none() {
            return false;
        }
        let until = begun + plan.draft().limits.timeout.min(SEARCH);
        let Ok(opened) = open_directories(plan, windows, Some(until)) else { return false };
        let is_same = have_nothing_to_guard(&opened) && are_the_same(&place.opened, &opened);
        place.opened = opened;
        is_same
    }
}
