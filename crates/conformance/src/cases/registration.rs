//! What a registration says, and what a registry answers about it.

use crate::bench::Bench;
use crate::case::Need::{Registration, Registry, Rig};
use crate::case::{Case, Failure, case, ensure};
use crate::suite::RegistryAnswers;
use headcount_contract::{AdapterRegistration, Capabilities, Capability};

pub(super) const CASES: &[Case] = &[
    case!(
        "registration::is_found_by_its_kind",
        "registration.found",
        [Registration, Registry],
        at_once is_found_by_its_kind
    ),
    case!(
        "registration::is_listed_sorted_and_once",
        "registration.listed",
        [Registration, Registry],
        at_once is_listed_sorted_and_once
    ),
    case!(
        "registration::says_who_provides_it",
        "registration.provided_by",
        [Registration],
        at_once says_who_provides_it
    ),
    case!(
        "registration::describes_itself",
        "registration.describes",
        [Registration],
        at_once describes_itself
    ),
    case!(
        "registration::promises_all_that_is_verified",
        "registration.promises",
        [Registration, Rig],
        promises_all_that_is_verified
    ),
];

fn answers(bench: &Bench) -> Result<(&'static AdapterRegistration, RegistryAnswers), Failure> {
    match (bench.plan.registration, bench.plan.registry) {
        (Some(registration), Some(ask)) => Ok((registration, ask(registration.kind))),
        _ => Err(Failure::new("there is no registration or no registry")),
    }
}

fn is_found_by_its_kind(bench: &mut Bench) -> Result<(), Failure> {
    let (registration, answers) = answers(bench)?;
    match answers.found {
        Ok(found) => {
            ensure!(
                std::ptr::eq(found, registration),
                "under {} the registry finds the one of {}",
                registration.kind,
                found.provided_by
            );
            Ok(())
        }
        Err(error) => Err(Failure::new(format!(
            "the registry does not find {}: {error}",
            registration.kind
        ))),
    }
}

fn is_listed_sorted_and_once(bench: &mut Bench) -> Result<(), Failure> {
    let (registration, answers) = answers(bench)?;
    let kinds: Vec<_> = answers.listed.iter().map(|listed| listed.kind).collect();
    ensure!(
        kinds.is_sorted(),
        "the list is not sorted by kind: {kinds:?}"
    );
    let times = kinds
        .iter()
        .filter(|kind| **kind == registration.kind)
        .count();
    ensure!(
        times == 1,
        "{} is listed {times} times: {kinds:?}",
        registration.kind
    );
    Ok(())
}

fn says_who_provides_it(bench: &mut Bench) -> Result<(), Failure> {
    let Some(registration) = bench.plan.registration else {
        return Err(Failure::new("there is no registration"));
    };
    let provided_by = registration.provided_by;
    let fits = provided_by.split_once(' ').is_some_and(|(name, version)| {
        let numbers: Vec<_> = version
            .split(['-', '+'])
            .next()
            .unwrap_or("")
            .split('.')
            .collect();
        !name.is_empty()
            && numbers.len() == 3
            && numbers.iter().all(|number| number.parse::<u64>().is_ok())
    });
    ensure!(
        fits,
        "provided_by is {provided_by:?}, not a crate and its version, as in \"a-crate 1.2.3\""
    );
    Ok(())
}

fn describes_itself(bench: &mut Bench) -> Result<(), Failure> {
    let Some(registration) = bench.plan.registration else {
        return Err(Failure::new("there is no registration"));
    };
    let kind = registration.kind;
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    ensure!(
        kind.starts_with(|c: char| c.is_ascii_lowercase()) && kind.bytes().all(legal),
        "the kind is {kind:?}, not lower-case words joined by hyphens"
    );
    let summary = registration.summary;
    ensure!(
        !summary.trim().is_empty() && !summary.contains('\n'),
        "the summary is {summary:?}, not one sentence"
    );
    Ok(())
}

async fn promises_all_that_is_verified(bench: &mut Bench) -> Result<(), Failure> {
    let Some(registration) = bench.plan.registration else {
        return Err(Failure::new("there is no registration"));
    };
    let verified = bench.adapter().await?.capabilities();
    let promised = registration.capabilities;
    ensure!(
        covers(promised, verified),
        "the registration promises {promised:?} at best, the adapter says {verified:?}"
    );
    Ok(())
}

fn covers(promised: Capabilities, verified: Capabilities) -> bool {
    let covers =
        |promised: Capability, verified: Capability| promised.is_known() || !verified.is_known();
    covers(promised.history, verified.history)
        && covers(promised.heartbeat, verified.heartbeat)
        && covers(promised.snapshot, verified.snapshot)
        && covers(promised.cancel, verified.cancel)
        && covers(promised.terminal_cause, verified.terminal_cause)
}
