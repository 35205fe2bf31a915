//! The session with a gateway: connecting, reading, asking, connecting again.

mod drive;
mod pump;
mod reconcile;
pub(crate) mod requests;
mod shared;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use headcount_adapter_kit::first_sequence;
use headcount_contract::{
    AdapterError, DiscontinuityCause, Gap, HealthStatus, Sequence, Signal, Timestamp, Urgency,
};
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::pump::is_found;
pub(crate) use self::reconcile::omitted;
use self::requests::Requester;
pub(crate) use self::shared::{LinkState, Shared};
use crate::record::Remark;
use crate::translate::Ready;
use crate::transport::{End, Link, stdio, websocket};

/// The first wait before connecting again; it doubles up to the configured longest.
const RECONNECT_MIN: Duration = Duration::from_millis(250);
/// How long a started gateway may live on after its output has ended.
const MUTE_PATIENCE: Duration = Duration::from_secs(2);

/// How connections are made.
#[derive(Debug)]
pub(crate) enum Transport {
    /// Start a gateway, once.
    Stdio,
    /// Attach, again and again.
    WebSocket,
    /// Take what a host opens.
    Feed(mpsc::Receiver<Link>),
}

/// What the reading of frames tells the driving of the session.
#[derive(Debug)]
pub(crate) enum Notice {
    Ready(Ready),
    NewSession(String),
}

/// No code of others runs under these locks, so a poisoned one is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn now() -> Timestamp {
    SystemTime::now().into()
}

/// Keeps the session until it is stopped, or until the gateway that was started has ended.
pub(crate) async fn run(shared: Arc<Shared>, mut transport: Transport) {
    let mut wait = RECONNECT_MIN;
    let mut stop = shared.stop.subscribe();
    while !shared.is_stopping() {
        let opened = tokio::select! {
            opened = open(&shared, &mut transport) => opened,
            () = stopped(&mut stop) => break,
        };
        let link = match opened {
            Ok(Some(link)) => link,
            Ok(None) => break,
            Err(error) => {
                shared.health.set(HealthStatus::Down, error.to_string());
                if matches!(transport, Transport::Stdio) {
                    break;
                }
                tokio::select! {
                    () = tokio::time::sleep(jittered(wait)) => {}
                    () = stopped(&mut stop) => break,
                }
                wait = (wait * 2).min(shared.config.reconnect_max.max(RECONNECT_MIN));
                continue;
            }
        };
        let attaches = link.process.is_none();
        let (end, spoke) = session(&shared, link, &mut stop).await;
        if spoke {
            wait = RECONNECT_MIN;
        }
        if shared.is_stopping() || !attaches {
            break;
        }
        shared.with(|t| t.discontinuity(DiscontinuityCause::Disconnected, Gap::Possible));
        let again = format!("{end}; trying again");
        shared.health.set(HealthStatus::Down, again);
        if matches!(transport, Transport::WebSocket) {
            tokio::select! {
                () = tokio::time::sleep(jittered(wait)) => {}
                () = stopped(&mut stop) => break,
            }
            wait = (wait * 2).min(shared.config.reconnect_max.max(RECONNECT_MIN));
        }
    }
    shared.link.send_replace(LinkState::Over);
    shared.finished.store(true, Ordering::Release);
    // Whoever waits for the end of everything asks after each signal.
    shared.fanout.publish(Signal::Health(shared.health.get()));
    if shared.is_stopping() {
        shared.fanout.close();
    }
}

async fn open(shared: &Shared, transport: &mut Transport) -> Result<Option<Link>, AdapterError> {
    match transport {
        Transport::Stdio => stdio::open(&shared.config).map(Some),
        Transport::WebSocket => websocket::open(&shared.config).await.map(Some),
        Transport::Feed(links) => Ok(links.recv().await),
    }
}

/// One connection, to its end. Also whether the gateway spoke.
async fn session(
    shared: &Arc<Shared>,
    link: Link,
    stop: &mut watch::Receiver<Option<Urgency>>,
) -> (End, bool) {
    let Link {
        incoming,
        outgoing,
        ended,
        epoch,
        process,
    } = link;
    // A gateway that we started lives as long as we do; another may have been here before.
    let first = match process {
        Some(_) => Sequence::ZERO,
        None => first_sequence(now()),
    };
    shared.with(|translator| translator.connected(epoch, first));
    lock(&shared.unknown_methods).clear();
    let recorder = shared.recorder.get().cloned();
    let requester = Requester::new(outgoing, shared.config.request_timeout, recorder.clone());
    let (notices, for_the_drive) = mpsc::unbounded_channel();
    let pump = pump::Pump {
        shared: shared.clone(),
        pending: requester.pending(),
        notices,
    };
    let mut pumping = tokio::spawn(pump.run(incoming));
    let mut stopping = false;
    {
        let driving = drive::drive(shared, &requester, for_the_drive, process.as_ref());
        tokio::pin!(driving);
        tokio::select! {
            _ = &mut pumping => {}
            () = &mut driving => {}
            () = stopped(stop) => stopping = true,
        }
    }
    shared.with(|translator| translator.release(now()));
    let spoke = matches!(*shared.link.borrow(), LinkState::Up(_));
    shared.link.send_replace(LinkState::Connecting);
    if let Some(process) = &process {
        if stopping {
            match *stop.borrow_and_update() {
                Some(Urgency::Now) => process.kill(),
                _ => process.ask_to_end(shared.config.grace),
            }
        }
        let end = process_end(shared, process, ended, stop).await;
        if !pumping.is_finished() {
            let _ = (&mut pumping).await;
        }
        reconcile::gateway_ended(shared, process, &end).await;
        shared.tell_left_out();
        return (end, spoke);
    }
    // Dropping the requester ends the connection, and with it the reading.
    drop(requester);
    shared.link.send_replace(LinkState::Connecting);
    pumping.abort();
    let end = tokio::time::timeout(shared.config.request_timeout, ended).await;
    let end = match end {
        Ok(Ok(end)) => end,
        _ => End::Disconnected("the connection was closed".to_owned()),
    };
    if end != End::Overlong {
        lock(&shared.replaying).clear();
    }
    if let Some(recorder) = recorder.filter(|_| !shared.is_stopping()) {
        recorder.remark(&Remark::Disconnected, now());
    }
    shared.tell_left_out();
    (end, spoke)
}

/// Waits for the end of the gateway that we started; what it still says of its children is read until
/// then.
async fn process_end(
    shared: &Shared,
    process: &stdio::Process,
    ended: oneshot::Receiver<End>,
    stop: &mut watch::Receiver<Option<Urgency>>,
) -> End {
    // A second stop kills it now.
    let second = async {
        while stop.changed().await.is_ok() {
            if *stop.borrow_and_update() == Some(Urgency::Now) {
                process.kill();
            }
        }
        std::future::pending::<()>().await;
    };
    // A gateway whose output has ended is of no use to anybody.
    let useless = async {
        tokio::time::sleep(MUTE_PATIENCE).await;
        process.ask_to_end(shared.config.grace);
        std::future::pending::<()>().await;
    };
    let end = tokio::select! {
        end = ended => end.ok(),
        () = second => None,
        () = useless => None,
    };
    end.unwrap_or_else(|| End::Disconnected("the gateway is gone".to_owned()))
}

/// Resolves when the session is to be stopped, or nobody is left who could stop it.
async fn stopped(stop: &mut watch::Receiver<Option<Urgency>>) {
    loop {
        if stop.borrow_and_update().is_some() {
            return;
        }
        if stop.changed().await.is_err() {
            return;
        }
    }
}

/// Between half of it and all of it, so that many that lost one gateway do not come back at once.
fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(0.5 + fastrand::f64() / 2.0)
}
