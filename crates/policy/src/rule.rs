//! Approval rules: about which calls one speaks, and what it says.
//!
//! # Invariants
//! - What cannot be read never gets past a rule that asks or denies, and is never freed by one that approves.
//! - An amount is one plain number under the name that the rule gives it; whatever else looks like one makes it unclear.

use std::collections::BTreeMap;
use std::fmt;

use contract::Amount;
use serde::{Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;

use crate::budget::RuleBudget;
use crate::settings::ToolGlob;
use crate::spelling::{Known, Spoken, TextPattern};

/// Parts of names under which amounts are given, or what an amount is counted in, in letters and digits.
const AMOUNT_WORDS: [&str; 26] = [
    "amount", "amt", "balance", "bitcoin", "budget", "cents", "charge", "cost", "credit", "currency",
    "debit", "denomin", "deposit", "dollar", "euro", "invoice", "money", "payment", "price", "quantity",
    "refund", "satoshi", "sum", "total", "value", "withdraw",
];

/// The same as words of their own: they are parts of too many others.
const SHORT_AMOUNT_WORDS: [&str; 53] = [
    "ada",
    "aud",
    "bid",
    "bonus",
    "btc",
    "cad",
    "ccy",
    "cent",
    "chf",
    "cny",
    "count",
    "decimals",
    "each",
    "eth",
    "eur",
    "exponent",
    "factor",
    "fee",
    "gbp",
    "gwei",
    "inr",
    "installment",
    "jpy",
    "lamport",
    "lot",
    "margin",
    "minor",
    "multiple",
    "multiplier",
    "num",
    "offer",
    "paid",
    "pay",
    "pence",
    "penny",
    "percent",
    "pounds",
    "qty",
    "rate",
    "repeat",
    "sat",
    "scale",
    "share",
    "stake",
    "tax",
    "times",
    "tip",
    "tokens",
    "unit",
    "usd",
    "usdc",
    "usdt",
    "wei",
];

/// A rule about who must be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalRule {
    /// About which tools.
    pub tool: ToolGlob,
    /// About which of their calls.
    pub when: Conditions,
    /// What it says.
    pub effect: RuleEffect,
    /// How many different people must approve; more than the class of the call asks for, or it changes nothing.
    pub quorum: usize,
    /// Where it stands: file and line.
    pub place: String,
}

/// What an approval rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleEffect {
    /// Need not ask, where asking can be waived.
    Approve,
    /// The same as long as this much is not spent, and then must ask.
    Budget(RuleBudget),
    /// Must ask.
    Prompt,
    /// May not.
    Deny,
}

/// What must be true of a call's arguments for a rule to speak about it. Without any, it speaks about all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// What stands at these places.
    pub arguments: BTreeMap<ArgumentPath, Pattern>,
    /// How much it is about.
    pub amount: Option<AmountLimit>,
}

/// Whether a rule speaks about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It does.
    Clear,
    /// Nobody can tell, and why.
    Unclear(String),
    /// It does not.
    None,
}

impl ApprovalRule {
    /// A rule about all calls of some tools.
    pub fn about(tool: ToolGlob, effect: RuleEffect, place: impl Into<String>) -> ApprovalRule {
        ApprovalRule { tool, when: Conditions::default(), effect, quorum: 1, place: place.into() }
    }

    /// Whether it speaks about a call with these arguments, for what it says. Where nobody can tell, one that asks or
    /// denies does, and one that approves does not.
    pub(crate) fn fits<'a>(&'a self, arguments: &'a Value, known: &Known<'a>) -> Fit {
        // ATTACK(hidden-amount): what is missing, misspelt or of another kind is no way around a rule.
        match (self.when.fit(arguments, self.effect, known), self.effect) {
            (Fit::Unclear(_), RuleEffect::Approve) => Fit::None,
            // ATTACK(hidden-amount-of-a-budget): only what would be freed for certain is counted; the rest is asked about.
            (Fit::Clear, RuleEffect::Budget(_)) => {
                match self.when.fit(arguments, RuleEffect::Approve, known) {
                    Fit::None => Fit::Unclear("not all of what it may mean is meant".to_owned()),
                    fit => fit,
                }
            }
            (fit, _) => fit,
        }
    }

    /// The rule in words.
    pub(crate) fn described(&self) -> String {
        format!("{}: `{}`{}", self.place, self.tool.as_str(), self.when)
    }
}

impl Conditions {
    fn fit<'a>(&'a self, arguments: &'a Value, effect: RuleEffect, known: &Known<'a>) -> Fit {
        let mut unclear = None;
        for (path, pattern) in &self.arguments {
            match pattern.fit(path, arguments, effect, known) {
                Fit::None => return Fit::None,
                Fit::Unclear(why) => unclear = Some(why),
                Fit::Clear => {}
            }
        }
        if let Some(limit) = &self.amount {
            match limit.fit(&self.arguments, arguments, known) {
                Fit::None => return Fit::None,
                Fit::Unclear(why) => unclear = Some(why),
                Fit::Clear => {}
            }
        }
        unclear.map_or(Fit::Clear, Fit::Unclear)
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, pattern) in &self.arguments {
            write!(formatter, " with `{path}` {pattern}")?;
        }
        match &self.amount {
            Some(AmountLimit { argument, amounts: Amounts::Over(most) }) => {
                write!(formatter, " with `{argument}` over {most}")
            }
            Some(AmountLimit { argument, amounts: Amounts::UpTo(Amount::MOST) }) => {
                write!(formatter, " by its `{argument}`")
            }
            Some(AmountLimit { argument, amounts: Amounts::UpTo(most) }) => {
                write!(formatter, " with `{argument}` up to {most}")
            }
            None => Ok(()),
        }
    }
}

/// The way to an argument: names of members, with a dot between them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArgumentPath(Vec<String>);

/// Why a text is not the way to an argument.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not the name of an argument, such as `amount` or `payment.amount`")]
pub struct ArgumentPathError {
    text: String,
}

impl ArgumentPath {
    /// Reads `amount` or `payment.amount`.
    pub fn parse(text: &str) -> Result<ArgumentPath, ArgumentPathError> {
        let is_name = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic());
        if text.len() > 256 || !text.split('.').all(is_name) {
            return Err(ArgumentPathError { text: text.chars().take(256).collect() });
        }
        Ok(ArgumentPath(text.split('.').map(str::to_owned).collect()))
    }

    fn find<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(arguments, |value, name| value.as_object()?.get(name))
    }

    /// The argument itself.
    pub(crate) fn first(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }
}

impl fmt::Display for ArgumentPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("."))
    }
}

impl Serialize for ArgumentPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What an argument has to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Pattern {
    /// A text like this.
    Text(TextPattern),
    /// This number or truth value.
    Exactly(Value),
}

impl Pattern {
    /// Whether it fits one value and no other.
    pub(crate) fn is_one_value(&self) -> bool {
        match self {
            Pattern::Text(pattern) => !pattern.as_str().contains(['*', '?']),
            Pattern::Exactly(_) => true,
        }
    }

    fn fit<'a>(
        &self,
        path: &ArgumentPath,
        arguments: &'a Value,
        effect: RuleEffect,
        known: &Known<'a>,
    ) -> Fit {
        let Some(found) = path.find(arguments) else {
            return Fit::Unclear(format!("`{path}` is not given"));
        };
        let fits = match (self, found) {
            (Pattern::Text(pattern), Value::String(text)) => {
                let spoken = match effect {
                    RuleEffect::Approve => known.every_reading(pattern, text),
                    RuleEffect::Budget(_) | RuleEffect::Prompt | RuleEffect::Deny => {
                        known.any_reading(pattern, text)
                    }
                };
                match spoken {
                    Spoken::Yes => true,
                    Spoken::Untold(why) => return Fit::Unclear(format!("`{path}` {why}")),
                    Spoken::No => false,
                }
            }
            (Pattern::Exactly(Value::Bool(wanted)), Value::Bool(found)) => wanted == found,
            (Pattern::Exactly(Value::Number(wanted)), Value::Number(found)) => {
                wanted.as_f64() == found.as_f64()
            }
            _ => return Fit::Unclear(format!("`{path}` is {}", kind_of(found))),
        };
        if fits { Fit::Clear } else { Fit::None }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Text(pattern) => write!(formatter, "like `{}`", pattern.as_str()),
            Pattern::Exactly(value) => write!(formatter, "= {value}"),
        }
    }
}

/// How much a call may be about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AmountLimit {
    /// Where the amount stands.
    pub argument: ArgumentPath,
    /// Which amounts are meant.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// Which amounts a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Amounts {
    /// Those that are larger.
    Over(Amount),
    /// Those that are not.
    UpTo(Amount),
}

impl AmountLimit {
    fn fit<'a>(
        &'a self,
        pinned: &'a BTreeMap<ArgumentPath, Pattern>,
        arguments: &Value,
        known: &Known<'a>,
    ) -> Fit {
        let amount = match known.amount(self, pinned, arguments) {
            Ok(amount) => amount,
            Err(why) => return Fit::Unclear(why),
        };
        let fits = match self.amounts {
            Amounts::Over(most) => amount > most,
            Amounts::UpTo(most) => amount <= most,
        };
        if fits { Fit::Clear } else { Fit::None }
    }

    /// The one amount there is, if it is where and what it should be. What the rule says of other arguments, such as a
    /// currency, makes nothing unclear.
    pub(crate) fn read(&self, pinned: &[&ArgumentPath], arguments: &Value) -> Result<Amount, String> {
        let path = &self.argument;
        let found = path.find(arguments).ok_or_else(|| format!("`{path}` is not given"))?;
        if let Some(other) = self.another(pinned, arguments, &mut Vec::new()) {
            return Err(format!("`{other}` may be the amount instead of `{path}`"));
        }
        let Value::Number(number) = found else {
            return Err(format!("`{path}` is {}, not a number", kind_of(found)));
        };
        let number = number.as_f64().ok_or_else(|| format!("`{path}` cannot be read"))?;
        Amount::parse(number).map_err(|error| format!("`{path}`: {error}"))
    }

    /// Something else that could be meant as the amount, by its name.
    fn another(&self, pinned: &[&ArgumentPath], value: &Value, at: &mut Vec<String>) -> Option<String> {
        match value {
            Value::Object(members) => members.iter().find_map(|(name, member)| {
                at.push(name.clone());
                let is_ours = *at == self.argument.0 || pinned.iter().any(|path| path.0 == *at);
                let found = match !is_ours && looks_like_an_amount(name, self.argument.last()) {
                    true => Some(contract::show_hidden(&at.join("."))),
                    false => self.another(pinned, member, at),
                };
                at.pop();
                found
            }),
            Value::Array(items) => items.iter().find_map(|item| self.another(pinned, item, at)),
            _ => None,
        }
    }
}

/// Whether a name could be meant as an amount's. One that is not plain ASCII could be anything.
fn looks_like_an_amount(name: &str, ours: &str) -> bool {
    let plain = |text: &str| -> String {
        let letters = text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase());
        letters
            .map(|c| {
                if c == '0' {
                    'o'
                } else if c == '1' {
                    'l'
                } else {
                    c
                }
            })
            .collect()
    };
    let folded = plain(name);
    let is_short = |word: &str| {
        let (word, one) = (plain(word), |word: &str| SHORT_AMOUNT_WORDS.contains(&word));
        one(&word) || word.strip_suffix('s').is_some_and(one)
    };
    !name.is_ascii()
        || folded.is_empty()
        || folded == plain(ours)
        || AMOUNT_WORDS.iter().any(|word| folded.contains(word))
        || words_of(name).into_iter().chain([name]).any(is_short)
}

/// The words that a name is made of: `feeUsd`, `fee_usd` and `FEE-USD` are two.
fn words_of(name: &str) -> Vec<&str> {
    let mut starts = vec![0];
    let pairs = name.char_indices().zip(name.chars().skip(1));
    starts.extend(pairs.filter_map(|((at, before), after)| {
        let begins = !before.is_ascii_uppercase() && after.is_ascii_uppercase();
        (begins || !before.is_ascii_alphanumeric() || !after.is_ascii_alphanumeric())
            .then_some(at + before.len_utf8())
    }));
    let ends = starts.iter().skip(1).copied().chain([name.len()]);
    starts.iter().zip(ends).filter_map(|(start, end)| name.get(*start..end)).collect()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn over_100() -> AmountLimit {
        let argument = ArgumentPath::parse("amount").unwrap();
        AmountLimit { argument, amounts: Amounts::Over(Amount::parse(100.0).unwrap()) }
    }

    #[test]
    fn an_amount_is_over_its_limit_or_not() {
        let (limit, none) = (over_100(), BTreeMap::new());
        let fit =
            |amount: Value| limit.fit(&none, &json!({ "amount": amount, "to": "x" }), &Known::default());
        assert_eq!(fit(json!(100)), Fit::None);
        assert_eq!(fit(json!(0)), Fit::None);
        assert_eq!(fit(json!(100.0)), Fit::None);
        assert_eq!(fit(json!(100.000_000_1)), Fit::Clear);
        assert_eq!(fit(json!(101)), Fit::Clear);
        assert_eq!(fit(json!(1e6)), Fit::Clear);
    }

    #[test]
    fn an_amount_that_cannot_be_read_is_unclear_never_small() {
        let odd = [
            json!({}),
            json!({ "amount": null }),
            json!({ "amount": "1" }),
            json!({ "amount": "NaN" }),
            json!({ "amount": -5 }),
            json!({ "amount": [1] }),
            json!({ "amount": { "value": 1 } }),
            json!({ "amount": true }),
            json!({ "amount": 9e15 }),
            json!({ "Amount": 1 }),
            json!({ "amount ": 1 }),
            json!({ "amount": 1, "Amount": 1000 }),
            json!({ "amount": 1, "am0unt": 1000 }),
            json!({ "amount": 1, "amount_cents": 1000 }),
            json!({ "amount": 1, "\u{430}mount": 1000 }),
            json!({ "amount": 1, "payment": { "x": 1000 } }),
            json!({ "amount": 1, "lines": [{ "x": [{ "total": 1000 }] }] }),
            json!({ "payment": { "amount": 1 } }),
            json!([{ "amount": 1 }]),
            json!(1),
        ];
        for arguments in odd {
            let fit = over_100().fit(&BTreeMap::new(), &arguments, &Known::default());
            assert!(matches!(fit, Fit::Unclear(_)), "{arguments}");
        }
    }

    #[test]
    fn what_an_amount_is_counted_in_makes_it_unclear_unless_the_rule_says_it() {
        let fit =
            |rule: &Conditions, arguments: &Value| rule.fit(arguments, RuleEffect::Deny, &Known::default());
        let any = Conditions { amount: Some(over_100()), ..Conditions::default() };
        for key in [
            "cents",
            "fee",
            "feeUsd",
            "fees",
            "qty",
            "usd",
            "USD",
            "charge",
            "units",
            "unit",
            "currency",
            "baseCurrency",
            "tx_fee",
            "decimals",
            "num_shares",
            "repeat",
            "times",
            "wei",
            "invoice",
            "f_e_e_fee",
        ] {
            let arguments = json!({ "amount": 1, "order": { key: 10_000_000 } });
            assert!(matches!(fit(&any, &arguments), Fit::Unclear(_)), "{key}");
        }
        for key in [
            "to",
            "account",
            "country",
            "description",
            "feedback",
            "syntax",
            "timeout",
            "id",
            "note",
            "unity",
        ] {
            assert_eq!(fit(&any, &json!({ "amount": 1, key: "x" })), Fit::None, "{key}");
        }
        let currency = ArgumentPath::parse("currency").unwrap();
        let pinned = |text: &str| Conditions {
            arguments: [(currency.clone(), Pattern::Text(TextPattern::of(text)))].into(),
            ..any.clone()
        };
        let of = |amount: u64, currency: &str| json!({ "amount": amount, "currency": currency });
        assert_eq!(fit(&pinned("EUR"), &of(1, "EUR")), Fit::None);
        assert_eq!(fit(&pinned("EUR"), &of(101, "EUR")), Fit::Clear);
        assert_eq!(fit(&pinned("EUR"), &of(101, "USD")), Fit::None, "it is not about dollars");
        assert!(matches!(fit(&pinned("EUR"), &json!({ "amount": 101 })), Fit::Unclear(_)));
        assert!(matches!(fit(&pinned("*"), &of(1, "BTC")), Fit::Unclear(_)), "any is none that is said");
        // Two rules about one argument, of which one says what it is counted in.
        let (arguments, known) = (of(1, "EUR"), Known::default());
        let (one, other) = (pinned("EUR"), any.clone());
        assert_eq!(one.fit(&arguments, RuleEffect::Deny, &known), Fit::None);
        assert!(matches!(other.fit(&arguments, RuleEffect::Deny, &known), Fit::Unclear(_)));
    }

    #[test]
    fn what_is_unclear_applies_to_a_rule_that_asks_and_not_to_one_that_approves() {
        let when = Conditions { amount: Some(over_100()), ..Conditions::default() };
        let rule = |effect| ApprovalRule {
            when: when.clone(),
            ..ApprovalRule::about(ToolGlob::parse("pay").unwrap(), effect, "x:1")
        };
        let unclear = json!({ "amount": "1" });
        assert!(matches!(rule(RuleEffect::Prompt).fits(&unclear, &Known::default()), Fit::Unclear(_)));
        assert!(matches!(rule(RuleEffect::Deny).fits(&unclear, &Known::default()), Fit::Unclear(_)));
        assert_eq!(rule(RuleEffect::Approve).fits(&unclear, &Known::default()), Fit::None);
    }

    #[test]
    fn one_argument_that_clearly_differs_settles_it_whatever_else_is_unclear() {
        let path = |text| ArgumentPath::parse(text).unwrap();
        let text = |text: &str| Pattern::Text(TextPattern::of(text));
        let when = Conditions {
            arguments: [
                (path("command"), text("r*m")),
                (path("options.force"), Pattern::Exactly(json!(true))),
            ]
            .into(),
            amount: None,
        };
        let fit = |arguments: Value| when.fit(&arguments, RuleEffect::Deny, &Known::default());
        assert_eq!(fit(json!({ "command": "rm", "options": { "force": true } })), Fit::Clear);
        assert_eq!(fit(json!({ "command": "ls", "options": "force" })), Fit::None);
        assert_eq!(fit(json!({ "command": "rm", "options": { "force": false } })), Fit::None);
        assert!(matches!(fit(json!({ "command": "rm" })), Fit::Unclear(_)));
        assert!(matches!(fit(json!({ "command": ["rm"], "options": { "force": true } })), Fit::Unclear(_)));
    }
}
