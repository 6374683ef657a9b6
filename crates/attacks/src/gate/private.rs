//! What calls keep private, and what is left of it when it is erased.

use std::fs;

use contract::{CallId, CallResult, Canonical, Digest, Key, ReceiptBody, Scope};
use engine::{Credential, PrivateRefused, Reach, Reply};
use serde_json::{Value, json};
use store::{Vote, verify_receipt};

use crate::Try;
use crate::case::Effect;
use crate::gate::approvals::{furnished, remove};
use crate::gate::case::Case;
use crate::gate::payment::Payment;
use crate::gate::stand::{Ending, Gate, Opening, Stand, runtime, standard};

/// Words that somebody who wants to know tries first.
const GUESSES: [&str; 4] = ["no", "maybe", "yes", "later"];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "left-after-erasing",
            "what was erased is in no file of the store any more, and ledger and receipt verify",
            |stand| {
                // As a store would have it that keeps the text itself.
                stand.place.file("home/plain.db", &stand.secret)?;
                in_the_files(stand, &stand.secret)
            },
            |stand| {
                let gate = stand.gate(standard())?;
                let result = written(&gate, stand, &stand.secret)?;
                erase(&gate, stand, &result.call_id)?;
                runtime()?.block_on(gate.engine.store().verify(None))?;
                in_the_files(stand, &stand.secret)
            },
        )
        .without("the sealing", |stand| {
            stand.place.file("home/plain.db", &stand.secret)?;
            in_the_files(stand, &stand.secret)
        }),
        Case::new(
            "read-from-the-files",
            "whoever has the files of the store and not its key reads nothing of what was asked or given",
            |stand| {
                stand.place.file("home/plain.db", &stand.secret)?;
                in_the_files(stand, &stand.secret)
            },
            |stand| {
                let gate = stand.gate(standard())?;
                written(&gate, stand, &stand.secret)?;
                in_the_files(stand, &stand.secret)
            },
        ),
        Case::new(
            "guessed-from-the-ledger",
            "short arguments cannot be guessed from what ledger and receipts hold, before or after they are erased",
            |_| {
                // Against a plain digest the third guess is right.
                let recorded = digest_of("yes")?;
                let guessed = guess(|guess| Ok(digest_of(guess)? == recorded))?;
                Ok(Effect::through_if(guessed.is_some(), format!("{guessed:?}")))
            },
            |stand| {
                let gate = stand.gate(standard())?;
                let result = written(&gate, stand, "yes")?;
                let before = told(&gate, &result.call_id)?;
                erase(&gate, stand, &result.call_id)?;
                let after = format!("{before}{}", told(&gate, &result.call_id)?);
                let guessed = guess(|guess| {
                    let plain = digest_of(guess)?;
                    Ok(after.contains(&plain.to_string())
                        || after.contains(&Digest::of(plain.to_string().as_bytes()).to_string()))
                })?;
                Ok(Effect::through_if(guessed.is_some(), format!("{guessed:?}")))
            },
        ),
        Case::new(
            "guessed-from-a-question",
            "what a question, its answer and what runs under it leave in the store is no help to a guess",
            |stand| {
                let digest = Canonical::of(remove("build"))?.digest().to_string();
                stand.place.file("home/plain.db", &digest)?;
                in_the_files(stand, &digest)
            },
            |stand| {
                let gate = furnished(stand)?;
                let (call, view) = gate.waits("shell", remove("build"))?;
                let reach = Reach { scope: Scope::Agent, until: None };
                let reply = Reply { vote: Vote::Approve, reason: None, reach };
                let me = gate.operator()?;
                runtime()?.block_on(gate.engine.reply(view.id.as_str(), reply, &me, "attack"))?;
                gate.expect(&call, Ending::Done);
                let again = gate.call("shell", remove("build"), Ending::Done)?;
                if again.call_id != call {
                    return Err("what was approved did not run".into());
                }
                let digest = Canonical::of(remove("build"))?.digest().to_string();
                in_the_files(stand, &digest)
            },
        ),
        Case::new(
            "erased-and-again",
            "a payment that is erased at once cannot be made again as if it never was",
            |stand| paid_again(stand, Again::UnderAnotherKey),
            |stand| paid_again(stand, Again::Erased),
        )
        .without("the key it was made under", |stand| paid_again(stand, Again::UnderAnotherKey)),
        Case::new(
            "erased-by-nobody",
            "only an operator reads what a call keeps private, or erases it",
            |stand| {
                let gate = stand.gate(standard())?;
                let result = written(&gate, stand, "x")?;
                erase(&gate, stand, &result.call_id)?;
                let row = runtime()?.block_on(gate.engine.store().call(&result.call_id))?;
                let text = row.map(|row| row.arguments_json).unwrap_or_default();
                Ok(Effect::through_if(text.is_empty(), "an operator can"))
            },
            |stand| {
                let gate = stand.gate(standard())?;
                let result = written(&gate, stand, "x")?;
                let nobody = Credential::presented("the credential of nobody at all, really");
                let id = result.call_id.as_str();
                let (erased, read) = runtime()?.block_on(async {
                    (gate.engine.erase(id, None, &nobody).await, gate.engine.read_private(id, &nobody).await)
                });
                let held = matches!(erased, Err(PrivateRefused::NotAnOperator))
                    && matches!(read, Err(PrivateRefused::NotAnOperator));
                let row = runtime()?.block_on(gate.engine.store().call(&result.call_id))?;
                let kept = row.is_some_and(|row| !row.arguments_json.is_empty());
                Ok(Effect::through_if(!held || !kept, format!("{erased:?} {read:?}")))
            },
        ),
    ]
}

/// A call that writes a text to a file, and gives it in its answer.
fn written(gate: &Gate<'_>, stand: &Stand<'_>, text: &str) -> Try<CallResult> {
    stand.put("given", text)?;
    let request = gate.request("fs.write", arguments(text))?;
    let engine = &gate.engine;
    let call = engine.call(request, std::time::Duration::ZERO, Default::default());
    let result = runtime()?.block_on(call);
    gate.expect(&result.call_id, Ending::Done);
    Ok(result)
}

fn arguments(text: &str) -> Value {
    json!({ "path": "note", "content": text })
}

fn digest_of(guess: &str) -> Try<Digest> {
    Ok(Canonical::of(arguments(guess))?.digest())
}

fn guess(right: impl Fn(&str) -> Try<bool>) -> Try<Option<&'static str>> {
    for word in GUESSES {
        if right(word)? {
            return Ok(Some(word));
        }
    }
    Ok(None)
}

fn erase(gate: &Gate<'_>, stand: &Stand<'_>, call: &CallId) -> Try<()> {
    let credential = Credential::load_or_create(&stand.home())?;
    runtime()?.block_on(gate.engine.erase(call.as_str(), Some("an attack"), &credential))?;
    Ok(())
}

/// Through if a file of Toolgate's home holds the text.
fn in_the_files(stand: &Stand<'_>, text: &str) -> Try<Effect> {
    for entry in fs::read_dir(stand.home())? {
        let path = entry?.path();
        if path.is_file() && String::from_utf8_lossy(&fs::read(&path)?).contains(text) {
            return Ok(Effect::Through(path.display().to_string()));
        }
    }
    Ok(Effect::Held("no file has it".to_owned()))
}

/// How somebody tries to have a payment made twice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    UnderAnotherKey,
    Erased,
}

fn paid_again(stand: &Stand<'_>, again: Again) -> Try<Effect> {
    let book = stand.place.path("book");
    let tools = vec![Payment::into(book.clone()).tool()?];
    let gate = stand.open(Opening { tools, ..Opening::with(standard()) })?;
    let mut request = gate.request("pay", json!({ "amount": 1 }))?;
    let first = gate.ask(request.clone(), Ending::Done)?;
    if again == Again::UnderAnotherKey {
        request.key = Some(Key::parse("another")?);
    } else if let Ok(()) = erase(&gate, stand, &first.call_id) {
        return Ok(Effect::Through("it was erased".to_owned()));
    }
    gate.ask(request, Ending::Done)?;
    let payments = fs::read_to_string(book)?.lines().count();
    Ok(Effect::through_if(payments > 1, format!("{payments} payments")))
}

/// Everything that ledger and receipt tell of a call.
fn told(gate: &Gate<'_>, call: &CallId) -> Try<String> {
    let store = gate.engine.store();
    runtime()?.block_on(async {
        let mut told = Vec::new();
        store.export(&mut told).await?;
        let envelope = store.receipt(call).await?.ok_or("no receipt")?;
        let body: ReceiptBody = verify_receipt(&envelope, store.keys().public())?;
        Ok(format!("{}{}", String::from_utf8_lossy(&told), serde_json::to_string(&body)?))
    })
}
