//! A small server of its own.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::router;
use crate::site::Site;

/// Requests that wait for the database at a time.
const THREADS: usize = 8;
/// For what is being answered when the server stops.
const GRACE: Duration = Duration::from_secs(2);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Others could reach it, and would not be asked who they are.
    #[error(
        "{address} can be reached from other machines, and nobody would be asked who they are: \
         give a token (SiteBuilder::token) or a function that authenticates, or listen on 127.0.0.1"
    )]
    Remote {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// The operating system's error.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// The error.
        source: io::Error,
    },
}

/// A site with a socket of its own, for a process that serves nothing else.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold_web::{Server, Site};
///
/// let site = Site::builder().open::<diesel::SqliteConnection>("queue.db")?;
/// let serving = Server::bind(site, "127.0.0.1:0".parse()?)?.start()?;
/// println!("http://{}/", serving.address());
/// serving.stop();
///
/// let site = Site::builder().open::<diesel::SqliteConnection>("queue.db")?;
/// assert!(Server::bind(site, "0.0.0.0:0".parse()?).is_err());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct Server {
    site: Site,
    listener: TcpListener,
    address: SocketAddr,
}

/// A server that runs on a thread of its own; it stops when this is dropped.
pub struct Serving {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens. Only on this machine, unless the site asks who its visitors are.
    ///
    /// # Errors
    ///
    /// [`ServeError`].
    pub fn bind(mut site: Site, address: SocketAddr) -> Result<Self, ServeError> {
        let is_local = address.ip().is_loopback();
        if !is_local && !site.guard.asks() {
            return Err(ServeError::Remote { address });
        }
        // A page of anybody may have its own name point to this machine, and ask from inside of the visitor's browser.
        site.guard.check_hosts |= is_local;
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            site,
            listener,
            address,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers on a thread of its own.
    ///
    /// # Errors
    ///
    /// [`ServeError::Listen`] when there is no thread to be had.
    pub fn start(self) -> Result<Serving, ServeError> {
        let address = self.address;
        let failed = |source| ServeError::Listen { address, source };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS)
            .build()
            .map_err(failed)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("leasehold-web".to_owned())
            .spawn(move || {
                let served: io::Result<()> = runtime.block_on(async {
                    let listener = tokio::net::TcpListener::from_std(self.listener)?;
                    let router: axum::Router = router::router(Arc::new(self.site));
                    tokio::select! {
                        served = async { axum::serve(listener, router).await } => served,
                        _ = stopped => Ok(()),
                    }
                });
                if let Err(error) = served {
                    log::error!("the web page is not served any more: {error}");
                }
                runtime.shutdown_timeout(GRACE);
            })
            .map_err(failed)?;
        Ok(Serving {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Serving {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the server ends by itself, which it does only when its socket breaks.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Stops it.
    pub fn stop(self) {}
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
