/** The diagram as a list: each step in order, its state, and the ways on; for the keyboard and for screen readers. */
import { Button } from "react-aria-components";
import { useTranslation } from "react-i18next";

import type { Path, PathNode } from "../../api/operations";
import { Countdown } from "../../parts/Countdown";
import { iconOf, kindName, nameOfNode, outcomeName, slotName, standingOf } from "./kinds";

export function PathList({ path, chosen, onChoose }: { path: Path; chosen: string | null; onChoose: (node: PathNode) => void }) {
  const { t } = useTranslation();
  const names = new Map(path.nodes.map((node) => [node.id, nameOfNode(node)]));
  return (
    <ol className="path-list">
      {path.nodes.map((node) => {
        const Icon = iconOf(node.kind);
        const standing = standingOf(node, path.tokens);
        const ways = path.edges.filter((edge) => edge.source === node.id);
        const tokens = path.tokens.filter((token) => token.node_id === node.id && token.state !== "split");
        return (
          <li key={node.id} data-standing={standing} aria-current={standing === "here" ? "step" : undefined}>
            <Icon aria-hidden size={16} strokeWidth={1.75} />
            <div>
              <p className="log-head">
                {node.last_step_id ? (
                  <Button className="as-link" onPress={() => onChoose(node)} aria-pressed={node.id === chosen}>
                    {nameOfNode(node)}
                  </Button>
                ) : (
                  <span>{nameOfNode(node)}</span>
                )}
                <span className="quiet">{kindName(t, node.kind)}</span>
                {node.slot && <span className="tag">{t("instance.slot", { name: slotName(node.slot) })}</span>}
                {standing !== "ahead" && (
                  <span className="tag" data-standing={standing}>
                    {t(`instance.standing.${standing}`)}
                  </span>
                )}
                {node.visits > 1 && <span className="quiet">{t("instance.visits", { count: node.visits })}</span>}
                {tokens.map((token) => (
                  <span key={token.id} className="quiet">
                    {token.generation > 0 && t("instance.round", { count: token.generation + 1 })}{" "}
                    {token.wakes_at && <Countdown at={token.wakes_at} />}
                  </span>
                ))}
              </p>
              {ways.length > 0 && (
                <ul className="ways">
                  {ways.map((edge) => (
                    <li key={edge.id} data-taken={edge.taken > 0}>
                      {outcomeName(t, edge.label)}
                      {edge.condition && <code>{edge.condition}</code>} → {names.get(edge.target)}
                      {edge.taken > 0 && <span className="hidden"> {t("instance.taken", { count: edge.taken })}</span>}
                    </li>
                  ))}
                </ul>
              )}
            </div>
          </li>
        );
      })}
    </ol>
  );
}
