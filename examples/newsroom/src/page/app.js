"use strict";

// Texts are set as texts, never as markup.
const issues = document.getElementById("issues");
const answer = document.getElementById("answer");

function cell(row, name, text) {
  const cell = row.querySelector("." + name) ?? row.appendChild(document.createElement("td"));
  cell.className = name;
  if (cell.textContent !== text) cell.textContent = text;
}

function rowOf(issue) {
  const known = document.getElementById("issue-" + issue.id);
  if (known) return known;
  const row = document.createElement("tr");
  row.id = "issue-" + issue.id;
  for (const name of ["id", "title", "status", "generation", "lease", "article"]) cell(row, name, "");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Write";
  button.addEventListener("click", () => ask([issue.id]));
  row.appendChild(document.createElement("td")).appendChild(button);
  return issues.appendChild(row);
}

function show(state) {
  for (const issue of state.issues) {
    const row = rowOf(issue);
    const articles = state.articles.filter((article) => article.issue_id === issue.id);
    cell(row, "id", String(issue.id));
    cell(row, "title", issue.title);
    cell(row, "status", issue.status);
    cell(row, "generation", String(issue.generation));
    cell(row, "lease", issue.lease_ms === null ? "" : (issue.lease_ms / 1000).toFixed(1) + " s");
    cell(row, "article", articles.map((article) => article.text).join(" / "));
    row.dataset.status = issue.status;
  }
}

async function ask(ids) {
  const response = await fetch("/ai-articles", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ issue_ids: ids }),
  });
  const body = await response.json();
  const others = (body.others ?? []).map((other) => other.id + " " + (other.status ?? other.reason));
  const occupied = (body.occupied ?? []).join(", ") || "none";
  answer.textContent = body.error ?? response.status + ": occupied " + occupied + "; others: " + (others.join(", ") || "none");
}

document.getElementById("all").addEventListener("click", () => {
  ask([...issues.children].map((row) => Number(row.id.slice("issue-".length))));
});

async function look() {
  try {
    const response = await fetch("/state");
    if (response.ok) show(await response.json());
  } catch {
    answer.textContent = "the newsroom does not answer";
  }
  setTimeout(look, 300);
}

look();
