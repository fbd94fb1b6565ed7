/** @jsxImportSource preact */
/** The page of an outside party: small, for it is opened on phones, and without anything of a member's session. */
import { render } from "preact";

import { UploadPage } from "./UploadPage";

import "../styles/tokens.css";
import "../styles/app.css";
import "../styles/uploads.css";

const place = document.getElementById("root");
if (place !== null) render(<UploadPage />, place);
