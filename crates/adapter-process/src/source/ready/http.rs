//! Readiness by HTTP: a success of the server itself, not of a proxy or of where it points to.

use std::time::Duration;

use futures_util::future::select_ok;
use reqwest::{Client, redirect};

use super::Owner;
use crate::config::HttpCheck;

/// Asks both loopback addresses until one answers with a success.
pub(super) async fn until_it_answers(check: &HttpCheck, interval: Duration, owner: &mut Owner<'_>) {
    let client = Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .timeout(check.request_timeout)
        // An answer's body is dropped unread, and its connection with it.
        .pool_max_idle_per_host(0)
        .build();
    let Ok(client) = client else {
        // Nothing of the host's can make this fail; a probe that cannot be made never succeeds.
        return std::future::pending().await;
    };
    loop {
        let ask = |host: &str| {
            let request = client.get(format!("http://{host}:{}{}", check.port, check.path));
            Box::pin(async move {
                match request.send().await {
                    Ok(answer) if answer.status().is_success() => Ok(()),
                    _ => Err(()),
                }
            })
        };
        // At once, because a server that never answers on one must not hide one on the other.
        let answered = select_ok([ask("127.0.0.1"), ask("[::1]")]).await;
        if answered.is_ok() && owner.is_right() {
            return;
        }
        tokio::time::sleep(interval).await;
    }
}
