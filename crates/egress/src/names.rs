//! Gives granted names addresses that mean something to one grant only.
//!
//! A sandbox asks for a name and gets an address of `198.18.0.0/15`; it connects to that, and the gate knows the name again.
//! Asks nobody outside.
//!
//! # Invariants
//! - An address stands for one name, for as long as the grant is open; the gate's next grants get others.
//! - Names under a `*.` pattern are few, short and shallow: they are no way to send text out.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use contract::Host;

use crate::events::Denial;
use crate::permit::{Permit, Via};

/// So many different names under patterns one grant may use.
pub const MAX_NAMES: usize = 64;
/// So many where any host of the outside is permitted.
const MAX_PUBLIC_NAMES: usize = 1024;
/// So long may the part of a name be that stands for the `*`.
const MAX_UNDER: usize = 64;
/// So many labels may it have.
const MAX_LABELS: usize = 4;

const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const COUNT: u32 = 1 << 17;

/// Where the addresses of a gate's grants come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supply(Arc<AtomicU32>);

impl Supply {
    fn next(&self) -> Ipv4Addr {
        loop {
            let offset = self.0.fetch_add(1, Ordering::Relaxed) % COUNT;
            // The first and the last of a range are no hosts to some programs.
            if !matches!(offset & 0xff, 0 | 0xff) {
                return Ipv4Addr::from(FIRST + offset);
            }
        }
    }
}

/// The names of one grant and the addresses given for them.
#[derive(Debug)]
pub(crate) struct Names {
    supply: Supply,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<Host, Ipv4Addr>,
    by_address: HashMap<Ipv4Addr, Host>,
    /// How many of them no grant names.
    unnamed: usize,
}

impl Table {
    fn has_room(&self, via: &Via, host: &Host) -> Result<(), Denial> {
        let most = match via {
            Via::Named => return Ok(()),
            Via::Pattern { .. } => MAX_NAMES,
            Via::Public => MAX_PUBLIC_NAMES,
        };
        match self.unnamed < most || self.by_name.contains_key(host) {
            true => Ok(()),
            false => Err(Denial::TooManyNames),
        }
    }
}

impl Names {
    pub(crate) fn new(supply: Supply) -> Names {
        Names { supply, table: Mutex::default() }
    }

    /// Whether the name is granted, on any port, and may be used. Takes no room.
    pub(crate) fn may_use(&self, permit: &Permit, host: &Host) -> Result<Via, Denial> {
        let via = permit.via(host).ok_or(Denial::HostNotGranted)?;
        // A name that carries text out would be long, or one of many.
        if let Via::Pattern { under } = &via
            && (under.len() > MAX_UNDER || under.split('.').count() > MAX_LABELS)
        {
            return Err(Denial::NameTooLong);
        }
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.has_room(&via, host)?;
        Ok(via)
    }

    /// The address that stands for the name in this grant.
    pub(crate) fn address_of(&self, permit: &Permit, host: &Host) -> Result<Ipv4Addr, Denial> {
        let via = self.may_use(permit, host)?;
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = table.by_name.get(host) {
            return Ok(*address);
        }
        table.has_room(&via, host)?;
        table.unnamed += usize::from(via != Via::Named);
        let address = self.supply.next();
        table.by_name.insert(host.clone(), address);
        table.by_address.insert(address, host.clone());
        Ok(address)
    }

    /// The name that an address stands for.
    pub(crate) fn name_at(&self, address: Ipv4Addr) -> Option<Host> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.by_address.get(&address).cloned()
    }
}

#[cfg(test)]
mod tests {
    use contract::{Private, Reach};

    use super::*;
    use crate::permit::{Methods, PermitLimits};

    fn permit(reach: &[&str]) -> Permit {
        Permit {
            reach: reach.iter().map(|text| Reach::parse(text).unwrap()).collect(),
            blocked: Vec::new(),
            methods: Methods::Any,
            spends: Vec::new(),
            by_pattern: Vec::new(),
            private: Private::none(),
            login: None,
            limits: PermitLimits::default(),
        }
    }

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    #[test]
    fn a_name_keeps_its_address_and_the_address_its_name() {
        let (permit, names) = (permit(&["a.test:443", "b.test:443"]), Names::new(Supply::default()));
        let first = names.address_of(&permit, &host("a.test")).unwrap();
        let second = names.address_of(&permit, &host("b.test")).unwrap();
        assert_ne!(first, second);
        assert_eq!(names.address_of(&permit, &host("A.test.")), Ok(first));
        assert_eq!(names.name_at(second), Some(host("b.test")));
        assert!(first.octets().starts_with(&[198, 18]));
    }

    #[test]
    fn the_addresses_of_one_grant_mean_nothing_in_the_next() {
        let (permit, supply) = (permit(&["a.test:443"]), Supply::default());
        let (one, two) = (Names::new(supply.clone()), Names::new(supply));
        let first = one.address_of(&permit, &host("a.test")).unwrap();
        let second = two.address_of(&permit, &host("a.test")).unwrap();
        assert_ne!(first, second);
        assert_eq!(two.name_at(first), None);
    }

    #[test]
    fn names_below_a_pattern_are_few_short_and_shallow() {
        let (permit, names) = (permit(&["*.a.test:443", "named.a.test:443"]), Names::new(Supply::default()));
        assert_eq!(names.address_of(&permit, &host("a.test")), Err(Denial::HostNotGranted));
        assert_eq!(names.address_of(&permit, &host("1.2.3.4.x.a.test")), Err(Denial::NameTooLong));
        let long = format!("{}.{}.a.test", "x".repeat(40), "y".repeat(40));
        assert_eq!(names.address_of(&permit, &host(&long)), Err(Denial::NameTooLong));
        for number in 0..MAX_NAMES {
            names.address_of(&permit, &host(&format!("x{number}.a.test"))).unwrap();
        }
        assert_eq!(names.address_of(&permit, &host("one-more.a.test")), Err(Denial::TooManyNames));
        names.address_of(&permit, &host("x0.a.test")).unwrap();
        names.address_of(&permit, &host("named.a.test")).unwrap();
    }
}
