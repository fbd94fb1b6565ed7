"""The application of the guides: people book rooms, and a manager confirms. It declares, and runs nothing by itself.

assent serve --app bookings:app
assent worker --app bookings:app
"""

import assent

app = assent.App().add(
    {
        "contract": "booking",
        "version": 1,
        "fields": {
            "room": {"type": "text", "required": True},
            "guests": {"type": "integer", "required": True, "min": 1},
        },
        "lifecycle": {
            "initial": "draft",
            "states": {
                "draft": {"edit": "editable"},
                "requested": {"edit": "amend_only"},
                "confirmed": {"edit": "locked"},
            },
            "transitions": {
                "request": {"from": "draft", "to": "requested"},
                "confirm": {
                    "from": "requested",
                    "to": "confirmed",
                    "approval": "required",
                    "on_reject": "draft",
                },
            },
        },
        "on_drift": "fail",
        "permissions": {"create": ["clerk"], "request": ["clerk"], "confirm": ["manager"]},
    }
)


@app.task("bookings.invite")
def invite(room: str) -> dict[str, str]:
    """Run in the background, in a worker."""
    return {"invited": room}
