/** How long until a timer: by the second in its last hour, in words before. */
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

import { exact, relative } from "./format";
import { useReader } from "./reader";

const HOUR_MS = 3_600_000;

export function Countdown({ at }: { at: string }) {
  const { t } = useTranslation();
  const reader = useReader();
  const [now, setNow] = useState(() => Date.now());
  const left = Date.parse(at) - now;
  const isNear = left < HOUR_MS;
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), isNear ? 1_000 : 30_000);
    return () => clearInterval(timer);
  }, [isNear]);
  const seconds = Math.max(0, Math.ceil(left / 1000));
  const clock = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  const text = !isNear ? relative(at, reader.language, now) : seconds > 0 ? t("time.in", { time: clock }) : t("time.now");
  return (
    <time className="countdown" dateTime={at} title={exact(at, reader.language, reader.zone)}>
      {text}
    </time>
  );
}
