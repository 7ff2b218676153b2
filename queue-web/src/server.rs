//! A small server of its own.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use crate::router;
use crate::site::Site;

/// Requests that wait for the database at a time.
const THREADS: usize = 8;
/// Connections at a time; others wait until one ends.
const CONNECTIONS: usize = 256;
/// For the head of a request, also of the next one on the same connection.
const HEAD: Duration = Duration::from_secs(10);
/// For a whole connection: who reads its answers byte by byte gives way in the end. A browser opens another.
const CONNECTION: Duration = Duration::from_secs(120);
/// After an accept that failed, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
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
    /// [`ServeError::Remote`] when other machines could reach a site that asks nobody who they are, [`ServeError::Listen`] when
    /// the address is not to be had.
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
                    let router = router::router(Arc::new(self.site));
                    tokio::select! {
                        never = serve(listener, router) => match never {},
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

async fn serve(listener: tokio::net::TcpListener, router: axum::Router) -> Infallible {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return std::future::pending().await;
        };
        match listener.accept().await {
            Ok((stream, _)) => _ = tokio::spawn(connection(stream, router.clone(), place)),
            Err(error) => {
                log::warn!("a connection to the web page failed: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// One connection, until it ends, or for as long as it may last.
async fn connection(stream: TcpStream, router: axum::Router, _place: OwnedSemaphorePermit) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Ok(Err(error)) = timeout(CONNECTION, served).await {
        log::debug!("a connection to the web page ended: {error}");
    }
}

impl Serving {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the server ends, which it does by itself only when it cannot begin.
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
