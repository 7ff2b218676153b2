//! `serve`: the web page.

use std::fs;
use std::io;

use leasehold::{AsBackend, inspect};
use leasehold_web::{BuildError, ServeError, Server, Site};
use serde::Serialize;

use crate::cli::Serve;
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Served {
    url: String,
    /// Nobody may act, for nobody is asked who they are.
    read_only: bool,
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, serve: &Serve) -> Result<(), Failure> {
    // A page that could show nothing is told here, not to each visitor.
    inspect::workers(session.conn, &session.schema)?;
    let serving = Server::bind(site::<C>(session, serve)?, serve.listen)?.start()?;
    let served = Served {
        url: format!("http://{}/", serving.address()),
        read_only: serve.token_file.is_none(),
    };
    session.output.say(&served, |served| {
        let may = if served.read_only {
            " (read only: --token-file lets its holders act)"
        } else {
            ""
        };
        format!("{}{may}", served.url)
    })?;
    serving.wait();
    Err(Failure::Output(io::Error::other("the page is not served any more")))
}

fn site<C: AsBackend>(session: &Session<'_, C>, serve: &Serve) -> Result<Site, Failure> {
    let mut site = Site::builder().schema(&session.schema);
    if let Some(path) = &serve.token_file {
        let token = fs::read_to_string(path).map_err(|error| {
            let path = path.display().to_string();
            Failure::Usage(format!("cannot read the token in {}: {error}", output::line(&path)))
        })?;
        site = site.token(token.trim());
    }
    for host in &serve.hosts {
        site = site.host(host);
    }
    if serve.https_only {
        site = site.https_only();
    }
    if serve.payloads {
        site = site.show_payloads();
    }
    Ok(site.open::<C::Connection>(session.url)?)
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        Self::Usage(match error {
            ServeError::Remote { address } => format!(
                "{address} can be reached from other machines, and nobody would be asked who they are: \
                 give --token-file, or listen on 127.0.0.1"
            ),
            error => error.to_string(),
        })
    }
}
