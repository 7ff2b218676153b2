//! The page in a real browser, where one is installed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::elements::Element;
use fantoccini::error::CmdError;
use fantoccini::wd::Capabilities;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;

use crate::support::*;

/// A program of this name, in the search path.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The driver of the browser; ended when it is dropped.
struct Driver {
    child: Child,
    url: String,
}

impl Driver {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| {
                Some(
                    line.unwrap()
                        .split_once("started successfully on port ")?
                        .1
                        .trim_end_matches('.')
                        .to_owned(),
                )
            })
            .expect("it says on which port it listens");
        // Read on, so that it is not kept waiting.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            url: format!("http://127.0.0.1:{port}"),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It ends its browsers with it, also those of a test that failed.
        let _ = agent().get(format!("{}/shutdown", self.url)).call();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn capabilities(browser: &Path, profile: &Path) -> Capabilities {
    let profile = format!("--user-data-dir={}", profile.display());
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        &profile,
    ];
    let options = serde_json::json!({ "args": arguments, "binary": browser });
    Capabilities::from_iter([("goog:chromeOptions".to_owned(), options)])
}

/// What a person sees.
struct Page(Client);

impl Page {
    /// Waits until an element is there.
    async fn wait(&self, selector: &str) -> Result<Element, CmdError> {
        self.0.wait().at_most(SOON).for_element(Locator::Css(selector)).await
    }

    async fn text(&self, selector: &str) -> Result<String, CmdError> {
        self.wait(selector).await?.text().await
    }

    async fn click(&self, selector: &str) -> Result<(), CmdError> {
        self.wait(selector).await?.click().await
    }

    /// Waits until the answer of the last request shows.
    async fn answer(&self, begin: &str) -> Result<String, CmdError> {
        let since = Instant::now();
        loop {
            let text = self.text("#answer").await?;
            if text.starts_with(begin) {
                return Ok(text);
            }
            assert!(since.elapsed() < SOON, "{text}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A person opens the page, asks for one article and then for all, and sees them come.
async fn visit(page: &Page, url: &str) -> Result<(), CmdError> {
    page.0.goto(url).await?;
    assert_eq!(
        page.text("#issue-8 .title").await?,
        "<script>alert('not a script')</script>"
    );
    assert_eq!(page.text("#issue-1 .status").await?, "PENDING");

    page.click("#issue-1 button").await?;
    page.answer("202: occupied 1;").await?;
    page.wait("#issue-1[data-status=DONE]").await?;
    assert!(page.text("#issue-1 .article").await?.starts_with("Bridge closed"));
    assert_eq!(page.text("#issue-2 .status").await?, "PENDING");

    page.click("#all").await?;
    let answer = page.answer("202: occupied 2, 3, 4, 5, 6, 7, 8;").await?;
    assert!(answer.ends_with("others: 1 DONE"), "{answer}");
    for issue in 2..=8 {
        page.wait(&format!("#issue-{issue}[data-status=DONE]")).await?;
    }
    page.click("#issue-1 button").await?;
    page.answer("409: occupied none; others: 1 DONE").await?;

    // What looks like markup is a text wherever it shows, and no script runs but the page's own.
    assert!(page.text("#issue-8 .article").await?.starts_with("<script>alert("));
    assert_eq!(page.0.find_all(Locator::Css("script")).await?.len(), 1);
    assert!(page.0.get_alert_text().await.is_err());
    let inline = "const element = document.createElement('script'); element.textContent = 'window.ran = true'; \
        document.body.append(element); return window.ran === true;";
    assert_eq!(
        page.0.execute(inline, Vec::new()).await?,
        false,
        "the policy lets inline scripts run"
    );
    Ok(())
}

conformance!(
    fn a_person_asks_for_articles_and_sees_them_come(db: &mut Db) {
        let browser = program("chromium").or_else(|| program("google-chrome"));
        let (Some(browser), Some(driver)) = (browser, program("chromedriver")) else {
            leasehold_tests::skipped(module_path!(), "there is no Chromium with its driver");
            return;
        };
        let service = start(db, 8, Duration::from_millis(200));
        let profile = tempfile::tempdir().unwrap();
        let driver = Driver::start(&driver);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = ClientBuilder::new(HttpConnector::new())
                .capabilities(capabilities(&browser, profile.path()))
                .connect(&driver.url)
                .await
                .unwrap();
            let page = Page(client);
            let visited = visit(&page, &service.url).await;
            page.0.close().await.unwrap();
            visited.unwrap();
        });
        assert_eq!(articles(db), 8);
    }
);
