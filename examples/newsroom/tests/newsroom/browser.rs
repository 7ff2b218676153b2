//! The page in a real browser, where one is installed.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thirtyfour::prelude::*;

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
    fn start(program: &PathBuf) -> Self {
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
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn capabilities(browser: &std::path::Path, profile: &std::path::Path) -> thirtyfour::ChromeCapabilities {
    let mut capabilities = DesiredCapabilities::chrome();
    capabilities.set_binary(browser.to_str().unwrap()).unwrap();
    for argument in [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        &format!("--user-data-dir={}", profile.display()),
    ] {
        capabilities.add_arg(argument).unwrap();
    }
    capabilities
}

/// A person opens the page, asks for one article and then for all, and sees them come.
async fn visit(driver: &WebDriver, url: &str) -> WebDriverResult<()> {
    driver.goto(url).await?;
    let wait = |selector: &'static str| async move {
        driver
            .query(By::Css(selector))
            .wait(SOON, Duration::from_millis(50))
            .first()
            .await
    };
    let hostile = wait("#issue-8 .title").await?;
    assert_eq!(hostile.text().await?, "<script>alert('not a script')</script>");
    assert_eq!(driver.find(By::Css("#issue-1 .status")).await?.text().await?, "PENDING");

    driver.find(By::Css("#issue-1 button")).await?.click().await?;
    wait("#issue-1[data-status=IN_PROGRESS], #issue-1[data-status=DONE]").await?;
    wait("#issue-1[data-status=DONE]").await?;
    assert!(
        driver
            .find(By::Css("#answer"))
            .await?
            .text()
            .await?
            .starts_with("202: occupied 1")
    );
    assert!(
        driver
            .find(By::Css("#issue-1 .article"))
            .await?
            .text()
            .await?
            .starts_with("Bridge closed")
    );
    assert_eq!(driver.find(By::Css("#issue-2 .status")).await?.text().await?, "PENDING");

    driver.find(By::Css("#all")).await?.click().await?;
    for issue in ["#issue-2", "#issue-5", "#issue-8"] {
        let done = format!("{issue}[data-status=DONE]");
        driver
            .query(By::Css(done))
            .wait(SOON, Duration::from_millis(50))
            .first()
            .await?;
    }
    assert!(
        driver
            .find(By::Css("#answer"))
            .await?
            .text()
            .await?
            .contains("others: 1 DONE")
    );
    driver.find(By::Css("#issue-1 button")).await?.click().await?;
    driver
        .query(By::Css("#answer"))
        .with_text("409: occupied none; others: 1 DONE")
        .wait(SOON, Duration::from_millis(50))
        .first()
        .await?;

    // What looks like markup is a text wherever it shows, and no script runs but the page's own.
    let article = driver.find(By::Css("#issue-8 .article")).await?;
    assert!(article.text().await?.starts_with("<script>alert("));
    assert_eq!(driver.find_all(By::Css("script")).await?.len(), 1);
    assert!(
        driver
            .find_all(By::Css("#issues script, #issues img"))
            .await?
            .is_empty()
    );
    assert!(driver.get_alert_text().await.is_err());
    let inline = "const element = document.createElement('script'); element.textContent = 'window.ran = true'; \
        document.body.append(element); return window.ran === true;";
    assert!(
        !driver.execute(inline, vec![]).await?.convert::<bool>()?,
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
            let session = WebDriver::new(&driver.url, capabilities(&browser, profile.path()))
                .await
                .unwrap();
            let visited = visit(&session, &service.url).await;
            session.quit().await.unwrap();
            visited.unwrap();
        });
        assert_eq!(articles(db), 8);
    }
);
